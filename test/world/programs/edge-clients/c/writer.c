// The writer of Apache's C client: see storm.py.
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper.h>

enum { GAP = 20 * 1000, TIMEOUT = 20 * 1000, PATIENCE = 60 }; // microseconds, milliseconds, seconds

static zhandle_t *client;
static const char *own, *other;
static sem_t connected, told, last;
static atomic_int sets, creates, events, missed = 1, disconnected, errors, over, longest, at_once;

static void seen(zhandle_t *zh, int type, int state, const char *path, void *context) {
	if (state == ZOO_CONNECTED_STATE) {
		sem_post(&connected);
	} else {
		disconnected++;
		fprintf(stderr, "c: state %d\n", state);
	}
}

static void tell(zhandle_t *zh, int type, int state, const char *path, void *context) {
	if (type == ZOO_CHANGED_EVENT) sem_post(&told);
}

static long now(void) { // milliseconds
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void failed(int rc) {
	errors++;
	fprintf(stderr, "c: %s\n", zerror(rc));
}

static void done(atomic_int *count, long began, int rc) {
	if (now() - began > longest) longest = now() - began;
	if (rc == ZOK) {
		++*count;
	} else {
		failed(rc);
	}
}

static void *follow(void *unused) {
	struct Stat stat = {.version = 0};
	for (;;) {
		char value[32];
		int n = sizeof value, version = stat.version;
		int rc = zoo_wget(client, other, tell, NULL, value, &n, &stat);
		if (rc != ZOK) return failed(rc), NULL;
		if (events > 0 && stat.version - version > at_once) at_once = stat.version - version;
		if (n == 4 && memcmp(value, "last", 4) == 0) break;
		while (sem_wait(&told) != 0) {}
		events++;
	}
	missed = 0;
	sem_post(&last);
	return NULL;
}

static void *await_end(void *unused) {
	while (getchar() != EOF) {}
	over = 1;
	return NULL;
}

static void set(const char *value) {
	long began = now();
	done(&sets, began, zoo_set(client, own, value, strlen(value), -1));
}

int main(int argc, char **argv) {
	own = argv[2], other = argv[3];
	sem_init(&connected, 0, 0), sem_init(&told, 0, 0), sem_init(&last, 0, 0);
	zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
	client = zookeeper_init(argv[1], seen, TIMEOUT, NULL, NULL, 0);
	sem_wait(&connected);
	pthread_t thread;
	pthread_create(&thread, NULL, await_end, NULL);
	pthread_create(&thread, NULL, follow, NULL);
	set("first");
	puts("ready"), fflush(stdout);
	char path[64], value[32];
	snprintf(path, sizeof path, "%s/n-", own);
	for (; !over; usleep(GAP)) {
		snprintf(value, sizeof value, "%d", sets);
		set(value);
		long began = now();
		done(&creates, began, zoo_create(client, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, NULL, 0));
	}
	set("last");
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PATIENCE;
	sem_timedwait(&last, &end);
	printf("sets=%d creates=%d events=%d missed=%d disconnected=%d errors=%d longest-ms=%d at-once=%d\n",
	       sets, creates, events, missed, disconnected, errors, longest, at_once);
}
