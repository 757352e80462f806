/*
 * Uses a server through ZooKeeper's C client (multi-threaded library).
 * Arguments: host:port. Prints PASS or FAIL for each group of checks; exit
 * status 0 means that all passed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum { DEADLINE_SECONDS = 20, MANY = 500, MAX_FD = 256 };

static const char *server;
static const char *group;
static int checks, failures;

static void check(int ok, const char *what, ...)
{
    checks++;
    if (ok) {
        return;
    }
    failures++;
    va_list args;
    va_start(args, what);
    printf("  %s: ", group);
    vprintf(what, args);
    printf("\n");
    va_end(args);
}

static void expect(const char *what, int want, int got)
{
    check(want == got, "%s: want %d (%s), got %d (%s)", what, want, zerror(want), got, zerror(got));
}

/* A list of what watchers heard, and a counter for completions. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct { int type, state; char path[256]; } events[1024];
static int event_count, event_next, completions, completion_failures;

static struct timespec deadline(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += DEADLINE_SECONDS;
    return t;
}

static void watcher(zhandle_t *zh, int type, int state, const char *path, void *ctx)
{
    (void)zh;
    (void)ctx;
    pthread_mutex_lock(&lock);
    if (event_count < (int)(sizeof events / sizeof events[0])) {
        events[event_count].type = type;
        events[event_count].state = state;
        snprintf(events[event_count].path, sizeof events[0].path, "%s", path ? path : "");
        event_count++;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* expect_event waits for the next node event and compares it. */
static void expect_event(int type, const char *path)
{
    struct timespec t = deadline();
    pthread_mutex_lock(&lock);
    for (;;) {
        while (event_next < event_count && events[event_next].type == ZOO_SESSION_EVENT) {
            event_next++;
        }
        if (event_next < event_count) {
            check(events[event_next].type == type && !strcmp(events[event_next].path, path),
                  "event: want %d %s, got %d %s", type, path, events[event_next].type, events[event_next].path);
            event_next++;
            break;
        }
        if (pthread_cond_timedwait(&changed, &lock, &t) == ETIMEDOUT) {
            check(0, "no event, want %d %s", type, path);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* await_state waits until the handle is in the wanted state. */
static int await_state(zhandle_t *zh, int want)
{
    struct timespec t = deadline();
    int reached = 1;
    pthread_mutex_lock(&lock);
    while (zoo_state(zh) != want) {
        if (pthread_cond_timedwait(&changed, &lock, &t) == ETIMEDOUT) {
            reached = zoo_state(zh) == want;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return reached;
}

static zhandle_t *open_handle(const char *hosts, const clientid_t *id, int flags)
{
    zhandle_t *zh = zookeeper_init(hosts, watcher, 10000, id, NULL, flags);
    check(zh != NULL, "zookeeper_init");
    check(await_state(zh, ZOO_CONNECTED_STATE), "not connected to %s", hosts);
    return zh;
}

static int create(zhandle_t *zh, const char *path, int mode, char *name, int name_size)
{
    return zoo_create(zh, path, "x", 1, &ZOO_OPEN_ACL_UNSAFE, mode, name, name_size);
}

static void nodes(zhandle_t *zh)
{
    char name[64], data[16];
    int size = sizeof data;
    struct Stat stat;
    struct String_vector kids;
    expect("create", ZOK, create(zh, "/c", ZOO_PERSISTENT, name, sizeof name));
    expect("create again", ZNODEEXISTS, create(zh, "/c", ZOO_PERSISTENT, NULL, 0));
    expect("no parent", ZNONODE, create(zh, "/none/x", ZOO_PERSISTENT, NULL, 0));
    expect("sequential", ZOK, create(zh, "/c/s-", ZOO_PERSISTENT_SEQUENTIAL, name, sizeof name));
    check(!strcmp(name, "/c/s-0000000000"), "sequential name %s", name);
    expect("ephemeral", ZOK, create(zh, "/c/e", ZOO_EPHEMERAL, NULL, 0));
    expect("child of an ephemeral", ZNOCHILDRENFOREPHEMERALS, create(zh, "/c/e/x", ZOO_PERSISTENT, NULL, 0));
    expect("container", ZOK, create(zh, "/c/box", ZOO_CONTAINER, NULL, 0));
    expect("ttl", ZOK, zoo_create_ttl(zh, "/c/ttl", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 100000, NULL, 0));
    expect("create2", ZOK, zoo_create2(zh, "/c/two", "xy", 2, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, name, sizeof name, &stat));
    check(stat.dataLength == 2 && stat.version == 0, "stat of create2");
    expect("null data", ZOK, zoo_create(zh, "/c/null", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    expect("get null", ZOK, zoo_get(zh, "/c/null", 0, data, &size, &stat));
    check(size == -1, "null data has length %d", size);
    size = sizeof data;
    expect("get", ZOK, zoo_get(zh, "/c", 0, data, &size, &stat));
    check(size == 1 && data[0] == 'x' && stat.numChildren == 6, "get: %d bytes, %d children", size, stat.numChildren);
    expect("set", ZOK, zoo_set2(zh, "/c", "new", 3, 0, &stat));
    check(stat.version == 1, "version %d", stat.version);
    expect("stale set", ZBADVERSION, zoo_set(zh, "/c", "old", 3, 0));
    expect("exists", ZOK, zoo_exists(zh, "/c/e", 0, &stat));
    check(stat.ephemeralOwner == zoo_client_id(zh)->client_id, "owner");
    expect("absent", ZNONODE, zoo_exists(zh, "/c/none", 0, &stat));
    expect("children", ZOK, zoo_get_children2(zh, "/c", 0, &kids, &stat));
    check(kids.count == 6 && stat.cversion == 6, "%d children, cversion %d", kids.count, stat.cversion);
    deallocate_String_vector(&kids);
    expect("not empty", ZNOTEMPTY, zoo_delete(zh, "/c", -1));
    expect("delete", ZOK, zoo_delete(zh, "/c/e", 0));
    expect("delete of nothing", ZNONODE, zoo_delete(zh, "/c/e", -1));
}

static void count_done(int rc, const void *data)
{
    (void)data;
    pthread_mutex_lock(&lock);
    completions++;
    completion_failures += rc != ZOK;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void string_done(int rc, const char *value, const void *data)
{
    (void)value;
    count_done(rc, data);
}

static void stat_done(int rc, const struct Stat *stat, const void *data)
{
    count_done(rc != ZOK || stat->version != 1, data);
}

static void data_done(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
    (void)stat;
    count_done(rc != ZOK || len != 1 || value[0] != 'n', data);
}

static void await_completions(int want)
{
    struct timespec t = deadline();
    pthread_mutex_lock(&lock);
    while (completions < want && pthread_cond_timedwait(&changed, &lock, &t) != ETIMEDOUT) {
    }
    check(completions == want, "%d completions, want %d", completions, want);
    check(completion_failures == 0, "%d completions failed", completion_failures);
    completions = completion_failures = 0;
    pthread_mutex_unlock(&lock);
}

static void async(zhandle_t *zh)
{
    char path[64];
    expect("create", ZOK, create(zh, "/ca", ZOO_PERSISTENT, NULL, 0));
    for (int i = 0; i < MANY; i++) {
        snprintf(path, sizeof path, "/ca/%d", i);
        zoo_acreate(zh, path, "x", 1, &ZOO_OPEN_ACL_UNSAFE, 0, string_done, NULL);
        zoo_aset(zh, path, "n", 1, 0, stat_done, NULL);
        zoo_aget(zh, path, 0, data_done, NULL);
    }
    zoo_async(zh, "/ca", string_done, NULL);
    await_completions(3 * MANY + 1);
}

static void multi(zhandle_t *zh)
{
    char name[64];
    struct Stat stat;
    zoo_op_t ops[4];
    zoo_op_result_t results[4];
    zoo_create_op_init(&ops[0], "/cm", "x", 1, &ZOO_OPEN_ACL_UNSAFE, 0, name, sizeof name);
    zoo_set_op_init(&ops[1], "/cm", "y", 1, 0, &stat);
    zoo_check_op_init(&ops[2], "/cm", 1);
    zoo_create_op_init(&ops[3], "/cm/a", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, name, sizeof name);
    expect("multi", ZOK, zoo_multi(zh, 4, ops, results));
    check(stat.version == 1 && !strcmp(name, "/cm/a"), "multi: version %d, name %s", stat.version, name);
    zoo_delete_op_init(&ops[0], "/cm/a", -1);
    zoo_check_op_init(&ops[1], "/cm", 99);
    zoo_delete_op_init(&ops[2], "/cm", -1);
    expect("failing multi", ZBADVERSION, zoo_multi(zh, 3, ops, results));
    expect("first", ZOK, results[0].err);
    expect("second", ZBADVERSION, results[1].err);
    expect("third", ZRUNTIMEINCONSISTENCY, results[2].err);
    expect("nothing happened", ZOK, zoo_exists(zh, "/cm/a", 0, NULL));
}

static void watches(zhandle_t *zh, zhandle_t *actor)
{
    struct Stat stat;
    struct String_vector kids;
    char data[8];
    int size = sizeof data;
    expect("wexists", ZNONODE, zoo_wexists(zh, "/cw", watcher, NULL, &stat));
    expect("create", ZOK, create(actor, "/cw", ZOO_PERSISTENT, NULL, 0));
    expect_event(ZOO_CREATED_EVENT, "/cw");
    expect("wget", ZOK, zoo_wget(zh, "/cw", watcher, NULL, data, &size, &stat));
    expect("set", ZOK, zoo_set(actor, "/cw", "y", 1, -1));
    expect_event(ZOO_CHANGED_EVENT, "/cw");
    expect("wget_children", ZOK, zoo_wget_children(zh, "/cw", watcher, NULL, &kids));
    deallocate_String_vector(&kids);
    expect("create", ZOK, create(actor, "/cw/x", ZOO_PERSISTENT, NULL, 0));
    expect_event(ZOO_CHILD_EVENT, "/cw");
    expect("wexists", ZOK, zoo_wexists(zh, "/cw/x", watcher, NULL, &stat));
    expect("delete", ZOK, zoo_delete(actor, "/cw/x", -1));
    expect_event(ZOO_DELETED_EVENT, "/cw/x");
    expect("wexists", ZOK, zoo_wexists(zh, "/cw", watcher, NULL, &stat));
    expect("remove watches", ZOK, zoo_remove_watches(zh, "/cw", ZWATCHTYPE_DATA, watcher, NULL, 0));
    expect("remove again", ZNOWATCHER, zoo_remove_watches(zh, "/cw", ZWATCHTYPE_DATA, watcher, NULL, 0));
}

static void auth_done(int rc, const void *data)
{
    count_done(rc, data);
}

static void acl(zhandle_t *zh)
{
    struct Stat stat;
    struct ACL_vector list;
    char data[8];
    int size = sizeof data;
    zhandle_t *owner = open_handle(server, NULL, 0);
    zoo_add_auth(owner, "digest", "bob:pw", 6, auth_done, NULL);
    await_completions(1);
    expect("create", ZOK, zoo_create(owner, "/cacl", "x", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0));
    expect("get by a stranger", ZNOAUTH, zoo_get(zh, "/cacl", 0, data, &size, &stat));
    expect("get_acl", ZOK, zoo_get_acl(owner, "/cacl", &list, &stat));
    check(list.count == 1 && !strcmp(list.data[0].id.id, "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="), "acl %s", list.count ? list.data[0].id.id : "none");
    deallocate_ACL_vector(&list);
    expect("set_acl", ZOK, zoo_set_acl(owner, "/cacl", 0, &ZOO_READ_ACL_UNSAFE));
    size = sizeof data;
    expect("get", ZOK, zoo_get(zh, "/cacl", 0, data, &size, &stat));
    expect("set", ZNOAUTH, zoo_set(zh, "/cacl", "y", 1, -1));
    zookeeper_close(owner);
}

/* hold_session makes a session with an ephemeral node, prints the session's id
 * and password, and leaves without closing it. */
static int hold_session(void)
{
    zhandle_t *zh = open_handle(server, NULL, 0);
    if (failures || create(zh, "/cs", ZOO_EPHEMERAL, NULL, 0) != ZOK) {
        return 1;
    }
    const clientid_t *id = zoo_client_id(zh);
    printf("%lld", (long long)id->client_id);
    for (size_t i = 0; i < sizeof id->passwd; i++) {
        printf(" %d", (unsigned char)id->passwd[i]);
    }
    fflush(stdout);
    _exit(0);
}

/* A session that another process left goes on here. */
static void sessions(zhandle_t *zh, const char *program)
{
    char command[512];
    struct Stat stat;
    clientid_t id;
    long long number = 0;
    snprintf(command, sizeof command, "'%s' '%s' hold", program, server);
    FILE *holder = popen(command, "r");
    check(holder && fscanf(holder, "%lld", &number) == 1, "no session from %s", command);
    id.client_id = number;
    for (size_t i = 0; i < sizeof id.passwd; i++) {
        int byte = 0;
        check(holder && fscanf(holder, "%d", &byte) == 1, "no password byte %zu", i);
        id.passwd[i] = (char)byte;
    }
    if (holder) {
        pclose(holder);
    }
    zhandle_t *second = open_handle(server, &id, 0);
    check(zoo_client_id(second)->client_id == id.client_id, "another session");
    expect("exists", ZOK, zoo_exists(second, "/cs", 0, &stat));
    check(stat.ephemeralOwner == id.client_id, "owner");
    expect("wexists", ZOK, zoo_wexists(zh, "/cs", watcher, NULL, &stat));
    zookeeper_close(second);
    expect_event(ZOO_DELETED_EVENT, "/cs");
    zhandle_t *late = zookeeper_init(server, watcher, 10000, &id, NULL, 0);
    check(await_state(late, ZOO_EXPIRED_SESSION_STATE), "a closed session should be expired");
    zookeeper_close(late);
}

/* is_server tells whether a port is one of the connect string. */
static int is_server(int port)
{
    char part[8];
    snprintf(part, sizeof part, ":%d", port);
    const char *at = strstr(server, part);
    return at != NULL && (at[strlen(part)] == ',' || at[strlen(part)] == 0);
}

/* server_sockets marks the descriptors that are connected to a server. */
static void server_sockets(int connected[MAX_FD])
{
    for (int fd = 0; fd < MAX_FD; fd++) {
        struct sockaddr_in peer;
        socklen_t size = sizeof peer;
        connected[fd] = getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET
            && is_server(ntohs(peer.sin_port));
    }
}

/* The connection is cut under the library: session and watches must survive. */
static void reconnect(zhandle_t *actor)
{
    struct Stat stat;
    int before[MAX_FD], after[MAX_FD];
    server_sockets(before);
    zhandle_t *zh = open_handle(server, NULL, 0);
    expect("create", ZOK, create(zh, "/cr", ZOO_PERSISTENT, NULL, 0));
    int64_t session = zoo_client_id(zh)->client_id;
    expect("wexists", ZOK, zoo_wexists(zh, "/cr", watcher, NULL, &stat));
    server_sockets(after);
    for (int fd = 0; fd < MAX_FD; fd++) {
        if (after[fd] && !before[fd]) {
            shutdown(fd, SHUT_RDWR);
        }
    }
    expect("set", ZOK, zoo_set(actor, "/cr", "y", 1, -1));
    expect_event(ZOO_CHANGED_EVENT, "/cr");
    check(await_state(zh, ZOO_CONNECTED_STATE), "not connected again");
    check(zoo_client_id(zh)->client_id == session, "another session");
    zookeeper_close(zh);
}

static void large(zhandle_t *zh)
{
    enum { SIZE = 1000 * 1000 };
    struct Stat stat;
    char *data = malloc(SIZE), *back = malloc(SIZE);
    int size = SIZE;
    memset(data, 7, SIZE);
    expect("create", ZOK, zoo_create(zh, "/cl", data, SIZE, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    expect("get", ZOK, zoo_get(zh, "/cl", 0, back, &size, &stat));
    check(size == SIZE && !memcmp(data, back, SIZE), "1 MB comes back as %d bytes", size);
    free(data);
    free(back);
}

static void chroot_(zhandle_t *zh)
{
    char hosts[128], name[64];
    expect("create", ZOK, create(zh, "/cc", ZOO_PERSISTENT, NULL, 0));
    snprintf(hosts, sizeof hosts, "%s/cc", server);
    zhandle_t *inside = open_handle(hosts, NULL, 0);
    expect("create", ZOK, create(inside, "/x", ZOO_PERSISTENT, name, sizeof name));
    check(!strcmp(name, "/x"), "name %s", name);
    expect("exists", ZOK, zoo_exists(zh, "/cc/x", 0, NULL));
    zookeeper_close(inside);
}

static void read_only(void)
{
    zhandle_t *zh = open_handle(server, NULL, ZOO_READONLY);
    expect("create", ZOK, create(zh, "/cro", ZOO_EPHEMERAL, NULL, 0));
    zookeeper_close(zh);
}

enum { CONFIG_SIZE = 4096 };

/* has_server checks whether the members in data have a server. */
static void has_server(const char *what, const char *data, const char *id, int want)
{
    char key[64];
    snprintf(key, sizeof key, "server.%s=", id);
    check((strstr(data, key) != NULL) == want, "%s: server.%s, want %d, in:\n%s", what, id, want, data);
}

/* get_config reads the members into data, which has CONFIG_SIZE bytes. */
static void get_config(zhandle_t *zh, int watch, char *data, struct Stat *stat)
{
    int size = CONFIG_SIZE - 1;
    expect("zoo_getconfig", ZOK, zoo_getconfig(zh, watch, data, &size, stat));
    data[size > 0 ? size : 0] = 0;
}

static int change(zhandle_t *zh, const char *joining, const char *leaving, int64_t version, char *data)
{
    struct Stat stat;
    int size = CONFIG_SIZE - 1;
    int rc = zoo_reconfig(zh, joining, leaving, NULL, version, data, &size, &stat);
    data[rc == ZOK && size > 0 ? size : 0] = 0;
    return rc;
}

static void authorize(zhandle_t *zh)
{
    zoo_add_auth(zh, "digest", "super:secret", strlen("super:secret"), auth_done, NULL);
    await_completions(1);
}

/* reconfig takes the server with an id out of the ensemble and back; joining is its line. */
static void reconfig(zhandle_t *zh, zhandle_t *other, const char *id, const char *joining)
{
    char data[CONFIG_SIZE];
    struct Stat stat;
    get_config(other, 1, data, &stat);
    has_server("before", data, id, 1);
    expect("without authority", ZNOAUTH, change(zh, NULL, id, -1, data));
    authorize(zh);
    expect("another version", ZBADVERSION, change(zh, NULL, id, 0x7700000000, data));
    expect("no server line", ZBADARGUMENTS, change(zh, "some thing", NULL, -1, data));
    expect("voters that do not run", ZNEWCONFIGNOQUORUM, change(zh, "server.9=127.0.0.1:1:2;3,server.8=127.0.0.1:4:5;6,server.7=127.0.0.1:7:8;9", NULL, -1, data));
    expect("remove", ZOK, change(zh, NULL, id, -1, data));
    has_server("removed", data, id, 0);
    expect_event(ZOO_CHANGED_EVENT, ZOO_CONFIG_NODE);
    get_config(zh, 0, data, &stat);
    has_server("removed", data, id, 0);
    expect("add", ZOK, change(zh, joining, NULL, stat.mzxid, data));
    has_server("added", data, id, 1);
}

static int failures_before;

static void begin(const char *name)
{
    group = name;
    failures_before = failures;
}

static void end(void)
{
    printf("%s %s\n", failures == failures_before ? "PASS" : "FAIL", group);
    fflush(stdout);
}

#define RUN(name, call) do { begin(name); call; end(); } while (0)

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s host:port\n", argv[0]);
        return 2;
    }
    server = argv[1];
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    group = "connect";
    if (argc == 3 && !strcmp(argv[2], "hold")) {
        return hold_session();
    }
    zhandle_t *zh = open_handle(server, NULL, 0), *other = open_handle(server, NULL, 0);
    if (argc == 5 && !strcmp(argv[2], "reconfig")) {
        RUN("reconfig", reconfig(zh, other, argv[3], argv[4]));
        return failures != 0;
    }
    RUN("nodes", nodes(zh));
    RUN("async", async(zh));
    RUN("multi", multi(zh));
    RUN("watches", watches(zh, other));
    RUN("acl", acl(zh));
    RUN("sessions", sessions(zh, argv[0]));
    RUN("reconnect", reconnect(other));
    RUN("large data", large(zh));
    RUN("chroot", chroot_(zh));
    RUN("read-only flag", read_only());
    zookeeper_close(other);
    zookeeper_close(zh);
    printf("%d checks, %d failed\n", checks, failures);
    return failures != 0;
}
