/*
 * Writes at each of the servers that are its arguments, with a client of the C
 * library for each, and says when a client loses its connection and when it
 * writes again. What it prints, the test that starts this says.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum { SESSION_MS = 60000, MOST = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int stopped;

struct writer {
    int number, lost;
    const char *server;
};

static void change(struct writer *w, int connected)
{
    pthread_mutex_lock(&lock);
    if (w->lost == connected) {
        w->lost = !connected;
        printf("%s c %d\n", connected ? "back" : "lost", w->number);
        fflush(stdout);
    }
    pthread_mutex_unlock(&lock);
}

static void watcher(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)path;
    if (type == ZOO_SESSION_EVENT && state != ZOO_CONNECTED_STATE && state != ZOO_ASSOCIATING_STATE) {
        change(context, 0);
    }
}

static void *run(void *context)
{
    struct writer *w = context;
    char path[64];
    int done = 0, unknown = 0;
    snprintf(path, sizeof path, "/outlive/c-%d", w->number);
    zhandle_t *zh = zookeeper_init(w->server, watcher, SESSION_MS, NULL, w, 0);
    if (zh == NULL) {
        perror("zookeeper_init");
        exit(1);
    }
    while (zoo_state(zh) != ZOO_CONNECTED_STATE) {
        usleep(5000);
    }
    for (; !stopped; usleep(5000)) {
        int rc = zoo_set(zh, path, "", 0, -1);
        if (rc == ZOK) {
            done++;
            change(w, 1);
        } else if (rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT) {
            unknown++;
            change(w, 0);
            usleep(100000);
        } else {
            pthread_mutex_lock(&lock);
            printf("failed c %d %s\n", w->number, zerror(rc));
            pthread_mutex_unlock(&lock);
            exit(1);
        }
    }
    pthread_mutex_lock(&lock);
    printf("total c %d %d %d\n", w->number, done, unknown);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST];
    static struct writer writers[MOST];
    zoo_set_debug_level(0);
    for (int i = 0; i < argc - 1 && i < MOST; i++) {
        writers[i] = (struct writer){.number = i, .server = argv[i + 1]};
        pthread_create(&threads[i], NULL, run, &writers[i]);
    }
    while (getchar() != EOF) {
    }
    stopped = 1;
    for (int i = 0; i < argc - 1 && i < MOST; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
