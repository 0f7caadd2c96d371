/* Corosync CPG: one closed process group, agreed (total) order. Called as program.py says.
 *
 * The topic travels in the message: a handle is in one group only, and order holds within a group. CPG admits a
 * process to a group once, and knows it by what getpid() says: ours says something else for each subscriber, so that
 * all of them can be in one process, as those of the other peers are. */
#define _GNU_SOURCE
#include <corosync/cpg.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PRETENDED 100000000 /* above every process */
#define PAYLOAD 100
#define TOPICS 5
#define TOPIC_BYTES 7
#define DISPATCH_EVERY 64
#define FIRST_NS 60000000000ull
#define IDLE_NS 10000000000ull
#define JOIN_NS 20000000000ull

struct head { uint64_t sent_ns; uint32_t publisher, n; };
struct record { struct head head; uint64_t had_ns; };

struct row { struct record *records; size_t heard; int joined; uint32_t pid; };

static size_t expected;
static pid_t pretended; /* 0: nothing */

pid_t getpid(void) { return pretended ? pretended : (pid_t)syscall(SYS_getpid); }

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void die(const char *what, cs_error_t error) {
  fprintf(stderr, "%s: corosync error %d\n", what, (int)error);
  exit(1);
}

static void deliver(cpg_handle_t handle, const struct cpg_name *group, uint32_t node, uint32_t pid, void *message,
                    size_t bytes) {
  (void)group, (void)node, (void)pid;
  struct row *row;
  cpg_context_get(handle, (void **)&row);
  if (row->records == NULL || bytes < TOPIC_BYTES + PAYLOAD || row->heard >= 2 * expected) return;
  memcpy(&row->records[row->heard].head, (char *)message + TOPIC_BYTES, sizeof(struct head));
  row->records[row->heard++].had_ns = now_ns();
}

static void changed(cpg_handle_t handle, const struct cpg_name *group, const struct cpg_address *members, size_t count,
                    const struct cpg_address *left, size_t left_count, const struct cpg_address *came, size_t came_count) {
  (void)group, (void)left, (void)left_count, (void)came, (void)came_count;
  struct row *row;
  cpg_context_get(handle, (void **)&row);
  for (size_t i = 0; i < count; i++) row->joined |= members[i].pid == row->pid;
}

static cpg_handle_t join(const char *name, struct row *row, int *fd) {
  cpg_callbacks_t callbacks = {.cpg_deliver_fn = deliver, .cpg_confchg_fn = changed};
  struct cpg_name group = {.length = strlen(name)};
  cpg_handle_t handle;
  cs_error_t error;
  uint64_t until = now_ns() + JOIN_NS;
  memcpy(group.value, name, group.length);
  while ((error = cpg_initialize(&handle, &callbacks)) == CS_ERR_TRY_AGAIN && now_ns() < until) usleep(1000);
  if (error != CS_OK) die("cpg_initialize", error);
  cpg_context_set(handle, row);
  row->pid = (uint32_t)getpid();
  while ((error = cpg_join(handle, &group)) == CS_ERR_TRY_AGAIN && now_ns() < until) usleep(1000);
  if (error != CS_OK) die("cpg_join", error);
  cpg_fd_get(handle, fd);
  while (!row->joined) {
    struct pollfd waiting = {.fd = *fd, .events = POLLIN};
    if (now_ns() > until) die("waiting for the group", CS_ERR_TIMEOUT);
    if (poll(&waiting, 1, 100) > 0) cpg_dispatch(handle, CS_DISPATCH_ALL);
  }
  return handle;
}

static void subscribe(const char *group, const char *folder, int count) {
  struct row *rows = calloc((size_t)count, sizeof *rows);
  struct pollfd *waiting = calloc((size_t)count, sizeof *waiting);
  cpg_handle_t *handles = calloc((size_t)count, sizeof *handles);
  for (int i = 0; i < count; i++) {
    rows[i].records = calloc(2 * expected, sizeof(struct record));
    memset(rows[i].records, 1, 2 * expected * sizeof(struct record)); /* its pages are there before events are */
    pretended = PRETENDED + i;
    handles[i] = join(group, &rows[i], &waiting[i].fd);
    waiting[i].events = POLLIN;
  }
  puts("{\"ready\": true}");
  fflush(stdout);
  uint64_t since = now_ns(), bound = FIRST_NS;
  for (int full = 0; full < count && now_ns() - since < bound;) {
    if (poll(waiting, (nfds_t)count, 100) <= 0) continue;
    full = 0;
    for (int i = 0; i < count; i++) {
      size_t before = rows[i].heard;
      if (waiting[i].revents) {
        cs_error_t error = cpg_dispatch(handles[i], CS_DISPATCH_ALL);
        if (error != CS_OK && error != CS_ERR_TRY_AGAIN) die("cpg_dispatch", error);
      }
      if (rows[i].heard != before) since = now_ns(), bound = IDLE_NS;
      full += rows[i].heard >= expected;
    }
  }
  for (int i = 0; i < count; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/row.%d", folder, i);
    FILE *file = fopen(path, "wb");
    size_t heard = rows[i].heard;
    if (file == NULL || fwrite(rows[i].records, sizeof(struct record), heard, file) != heard || fclose(file) != 0) exit(1);
    cpg_finalize(handles[i]);
  }
  puts("{\"heard\": true}");
}

static void publish(const char *group, uint32_t publisher, uint32_t events, uint64_t rate) {
  int fd;
  struct row mine = {0};
  char topic[TOPICS][TOPIC_BYTES + 1], payload[PAYLOAD] = {0}, line[16];
  for (int i = 0; i < TOPICS; i++) snprintf(topic[i], sizeof topic[i], "topic.%d", i);
  cpg_handle_t handle = join(group, &mine, &fd);
  puts("{\"ready\": true}");
  fflush(stdout);
  if (fgets(line, sizeof line, stdin) == NULL) exit(1);
  uint64_t first_ns = now_ns();
  for (uint32_t n = 0; n < events; n++) {
    if (rate) {
      uint64_t due = first_ns + n * (1000000000ull / rate);
      struct timespec at = {.tv_sec = (time_t)(due / 1000000000ull), .tv_nsec = (long)(due % 1000000000ull)};
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
    struct head head = {.sent_ns = now_ns(), .publisher = publisher, .n = n};
    struct iovec parts[] = {{topic[n % TOPICS], TOPIC_BYTES}, {payload, PAYLOAD}};
    cs_error_t error;
    memcpy(payload, &head, sizeof head);
    while ((error = cpg_mcast_joined(handle, CPG_TYPE_AGREED, parts, 2)) == CS_ERR_TRY_AGAIN) {
      struct pollfd waiting = {.fd = fd, .events = POLLIN};
      poll(&waiting, 1, 1);
      cpg_dispatch(handle, CS_DISPATCH_ALL);
    }
    if (error != CS_OK) die("cpg_mcast_joined", error);
    if (n % DISPATCH_EVERY == 0 || rate) cpg_dispatch(handle, CS_DISPATCH_ALL); /* a member hears itself, too */
  }
  printf("{\"first_ns\": %llu, \"last_ns\": %llu}\n", (unsigned long long)first_ns, (unsigned long long)now_ns());
  fflush(stdout);
  for (;;) { /* a member until all is heard */
    struct pollfd waiting[] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    if (poll(waiting, 2, 1000) < 0 || waiting[1].revents) break;
    if (waiting[0].revents) cpg_dispatch(handle, CS_DISPATCH_ALL);
  }
  cpg_finalize(handle);
}

int main(int count, char **words) {
  if (count != 9) return 2;
  int subscribers = atoi(words[4]), publishers = atoi(words[5]);
  uint32_t events = (uint32_t)atoi(words[7]);
  expected = (size_t)events * (size_t)publishers;
  if (strcmp(words[1], "subscribe") == 0)
    subscribe(words[2], words[3], subscribers);
  else
    publish(words[2], (uint32_t)atoi(words[6]), events, strtoull(words[8], NULL, 10));
  return 0;
}
