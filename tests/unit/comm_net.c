/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between processes (comm/net/net.h), by each implementation that is there. Every case runs in forked
 * processes, which open endpoints of their own and get each other's addresses through the test by pipes. */
#include "comm/net/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sync.h"
#include "unit.h"

enum { MOST_PROCESSES = 4 };
#define MIB ((size_t)1 << 20)

/* What the processes of a case share. */
typedef struct {
  net_address addresses[MOST_PROCESSES];
  _Atomic uint32_t at_barrier[64];
  _Atomic uint32_t done[MOST_PROCESSES];
} board;

static board *shared;
static int me, n_processes, n_barriers;
static const char *implementation;
static net_channel *channels[MOST_PROCESSES];
static _Atomic uint32_t n_told;

static void told(void) { atomic_fetch_add(&n_told, 1); }

static void tell_channels(void) {
  const char *words;
  for (int i = 0; i < n_processes; ++i) {
    const bool lost = channels[i] && net_is_lost(channels[i], &words);
    if (channels[i]) fprintf(stderr, "  channel to %d: %s%s\n", i, lost ? "lost: " : "", words);
  }
}

/* In a process of a case: ends it. */
#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s: process %d: %s (line %d); pending message: %s\n", implementation, me, #condition, __LINE__, \
              fail_take());                                                                                            \
      tell_channels();                                                                                                 \
      _exit(1);                                                                                                        \
    }                                                                                                                  \
  } while (0)

static void barrier(void) {
  _Atomic uint32_t *count = &shared->at_barrier[n_barriers++];
  atomic_fetch_add(count, 1);
  while (atomic_load(count) < (uint32_t)n_processes) usleep(500);
}

static void open_all(void) {
  net_on_progress(told);
  CHECK(net_open(&shared->addresses[me]) == ST_OK);
  CHECK(strcmp(net_name(), implementation) == 0);
  barrier();
  for (int i = 0; i < n_processes; ++i) {
    char words[32];
    snprintf(words, sizeof words, "rank %d", i);
    if (i != me) CHECK(net_connect(&shared->addresses[i], words, &channels[i]) == ST_OK);
  }
}

/* Waits until the request is done, polling; returns its state. */
static int wait_for(net_request *r) {
  while (atomic_load(&r->state) == 0)
    if (!net_progress()) sched_yield();
  return atomic_load(&r->state);
}

static unsigned char *pattern(size_t bytes, uint64_t seed) {
  unsigned char *data = malloc(bytes + 8);
  random_source random = {seed};
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word = i < 4096 || i % 4096 == 0 ? random_next(&random) : i;
    memcpy(data + i, &word, 8);
  }
  return data;
}

static void expect_pattern(const unsigned char *data, size_t bytes, uint64_t seed) {
  unsigned char *expected = pattern(bytes, seed);
  CHECK(memcmp(data, expected, bytes) == 0);
  free(expected);
}

/* ---- cases: each runs in every process ----------------------------------------------------------------- */

static const size_t sizes[] = {0, 1, 8, 4095, 65535, 65536, 65537, 1000 * 1000, 16 << 20, (64 << 20) + 3};

/* Messages of all sizes, one after the other, in both directions in turn. */
static void all_sizes(void) {
  for (size_t i = 0; i < COUNT(sizes); ++i)
    for (int from = 0; from < 2; ++from) {
      net_request r;
      unsigned char *data = from == me ? pattern(sizes[i], i) : malloc(sizes[i] + 1);
      const status st = from == me ? net_send(channels[1 - me], i, data, sizes[i], &r)
                                   : net_receive(channels[1 - me], i, data, sizes[i], &r);
      CHECK(st == ST_OK);
      CHECK(wait_for(&r) == 1);
      if (from != me) expect_pattern(data, sizes[i], i);
      free(data);
    }
}

/* 64 MiB each way at once, received before and after the send. */
static void both_ways(void) {
  const size_t bytes = 64 * MIB;
  unsigned char *out = pattern(bytes, (uint64_t)me + 7), *in = malloc(bytes);
  for (int receives_first = 0; receives_first < 2; ++receives_first) {
    net_request send, receive;
    if (receives_first) CHECK(net_receive(channels[1 - me], 5, in, bytes, &receive) == ST_OK);
    CHECK(net_send(channels[1 - me], 5, out, bytes, &send) == ST_OK);
    barrier();
    if (!receives_first) CHECK(net_receive(channels[1 - me], 5, in, bytes, &receive) == ST_OK);
    CHECK(wait_for(&send) == 1 && wait_for(&receive) == 1);
    expect_pattern(in, bytes, (uint64_t)(1 - me) + 7);
    memset(in, 0, bytes);
  }
  free(out);
  free(in);
}

/* Many tags at once, of sizes around the limits, between all pairs of processes; receives are posted in another order
 * than the sends, some before and some after. */
static void many_tags(void) {
  enum { TAGS = 200 };
  static net_request sends[MOST_PROCESSES][TAGS], receives[MOST_PROCESSES][TAGS];
  static unsigned char *out[MOST_PROCESSES][TAGS], *in[MOST_PROCESSES][TAGS];
  for (int half = 0; half < 2; ++half) {
    for (int p = 0; p < n_processes; ++p)
      for (int i = 0; p != me && i < TAGS; ++i) {
        const int tag = (i * 37 + p) % TAGS;
        const size_t bytes = (size_t)tag * 701;
        const bool receives_now = (tag & 1) == half;
        if (half == 0) {
          out[p][i] = pattern(bytes, (uint64_t)(me * 1000 + tag));
          CHECK(net_send(channels[p], (uint64_t)tag << 32, out[p][i], bytes, &sends[p][i]) == ST_OK);
        }
        if (!receives_now) continue;
        const int other = TAGS - 1 - tag;
        in[p][other] = malloc((size_t)other * 701 + 1);
        CHECK(net_receive(channels[p], (uint64_t)other << 32, in[p][other], (size_t)other * 701, &receives[p][other]) ==
              ST_OK);
      }
    barrier();
  }
  for (int p = 0; p < n_processes; ++p)
    for (int i = 0; p != me && i < TAGS; ++i) {
      CHECK(wait_for(&sends[p][i]) == 1 && wait_for(&receives[p][i]) == 1);
      expect_pattern(in[p][i], (size_t)i * 701, (uint64_t)(p * 1000 + i));
      free(in[p][i]);
      free(out[p][i]);
    }
}

/* Nobody polls: the thread of the endpoint moves the data, and tells. */
static void without_polling(void) {
  static unsigned char data[1 << 20];
  for (int i = 0; i < 20; ++i) {
    net_request r;
    const uint32_t before = atomic_load(&n_told);
    CHECK((i % 2 == me ? net_send(channels[1 - me], 1, data, sizeof data, &r)
                       : net_receive(channels[1 - me], 1, data, sizeof data, &r)) == ST_OK);
    if (atomic_load(&r.state)) continue;
    while (!atomic_load(&r.state)) usleep(100);
    while (atomic_load(&n_told) == before) usleep(100);
    CHECK(atomic_load(&r.state) == 1);
  }
}

/* Requests are cancelled before and after they were matched; what comes later is not disturbed. */
static void cancelled(void) {
  enum { BYTES = 8 << 20 };
  unsigned char *data = pattern(BYTES, 3);
  net_request r, other;
  if (me == 0) {
    CHECK(net_receive(channels[1], 1, data, 8, &r) == ST_OK); /* which nobody sends */
    net_cancel(channels[1], &r);
    CHECK(atomic_load(&r.state) != 0);
    barrier();
    CHECK(net_receive(channels[1], 2, data, 8, &r) == ST_OK);
    CHECK(wait_for(&r) == 1);
    barrier();
    /* A large message whose receive is taken back: the sender's ends when it is taken back, too. */
    CHECK(net_receive(channels[1], 3, data, BYTES, &r) == ST_OK);
    net_progress();
    net_cancel(channels[1], &r);
    memset(data, 0, BYTES);
    barrier();
    barrier();
    for (size_t i = 0; i < BYTES; ++i) CHECK(data[i] == 0);
  } else {
    barrier();
    CHECK(net_send(channels[0], 2, data, 8, &r) == ST_OK);
    CHECK(wait_for(&r) == 1);
    barrier();
    barrier();
    CHECK(net_send(channels[0], 3, data, BYTES, &other) == ST_OK);
    net_progress();
    net_cancel(channels[0], &other);
    CHECK(atomic_load(&other.state) != 0);
    barrier();
  }
  free(data);
}

/* The channel still works after cancelled requests (where the implementation says so: TCP), in any timing. */
static void cancelled_often(void) {
  enum { BYTES = 3 << 20, ROUNDS_OF_IT = 60 };
  unsigned char *data = pattern(BYTES, 4), *in = malloc(BYTES);
  random_source random = {(uint64_t)me + 99};
  for (uint64_t i = 0; i < ROUNDS_OF_IT; ++i) {
    net_request send, receive, last;
    CHECK(net_send(channels[1 - me], 100 + i, data, BYTES, &send) == ST_OK);
    CHECK(net_receive(channels[1 - me], 100 + i, in, BYTES, &receive) == ST_OK);
    for (uint32_t n = random_below(&random, 40); n; --n) net_progress();
    if (random_below(&random, 2)) {
      net_cancel(channels[1 - me], &send);
      net_cancel(channels[1 - me], &receive);
    } else {
      net_cancel(channels[1 - me], &receive);
      net_cancel(channels[1 - me], &send);
    }
    uint64_t number = i;
    CHECK(net_send(channels[1 - me], 1, &number, sizeof number, &last) == ST_OK);
    CHECK(wait_for(&last) == 1);
    CHECK(net_receive(channels[1 - me], 1, &number, sizeof number, &last) == ST_OK);
    CHECK(wait_for(&last) == 1 && number == i);
  }
  free(data);
  free(in);
}

/* Another length than expected: fails with both lengths, for short and for long messages. */
static void mismatch(void) {
  static unsigned char data[1 << 20];
  const size_t sent[] = {8, 100, 1 << 20, 300 << 10}, expected[] = {100, 8, 300 << 10, 1 << 20};
  for (uint64_t i = 0; i < COUNT(sent); ++i) {
    net_request r;
    const char *words;
    if (me == 0) {
      CHECK(net_send(channels[1], i, data, sent[i], &r) == ST_OK);
      wait_for(&r);
    } else {
      if (i & 1) usleep(20000);
      CHECK(net_receive(channels[0], i, data, expected[i], &r) == ST_OK);
      CHECK(wait_for(&r) < 0);
      CHECK(!net_is_lost(channels[0], &words));
      CHECK(strstr(words, "rank 0 sent a message of 8 bytes, expected 100"));
    }
    barrier();
  }
  uint64_t number = 17;
  net_request r;
  CHECK((me ? net_receive(channels[0], 9, &number, 8, &r) : net_send(channels[1], 9, &number, 8, &r)) == ST_OK);
  CHECK(wait_for(&r) == 1 && number == 17);
}

/* A process is killed: the other sees it, and its requests fail. */
static void killed(void) {
  enum { BYTES = 32 << 20 };
  unsigned char *data = pattern(BYTES, 1);
  net_request small, large, r;
  const char *words;
  CHECK((me ? net_receive(channels[0], 9, data, 8, &r) : net_send(channels[1], 9, data, 8, &r)) == ST_OK);
  CHECK(wait_for(&r) == 1);
  barrier();
  if (me == 1) raise(SIGKILL);
  const status received = net_receive(channels[1], 1, data, 8, &small);
  const status sent = net_send(channels[1], 2, data, BYTES, &large);
  CHECK(received == ST_OK || received == ST_COMM_REMOTE); /* the end may be noticed this early */
  CHECK(sent == ST_OK || sent == ST_COMM_REMOTE);
  while (!net_is_lost(channels[1], &words)) net_progress();
  CHECK(strstr(words, "rank 1"));
  net_cancel(channels[1], &small);
  net_cancel(channels[1], &large);
  CHECK(atomic_load(&small.state) != 0 && atomic_load(&large.state) != 0);
  CHECK(net_send(channels[1], 3, data, 8, &r) == ST_COMM_REMOTE);
  CHECK(strstr(fail_take(), "rank 1"));
  free(data);
}

/* A process is dead before anybody has connected to it. */
static void never_reached(void) {
  const char *words;
  net_request r;
  unsigned char data[8] = {0};
  barrier();
  if (me == 1) raise(SIGKILL);
  usleep(50000);
  net_receive(channels[1], 1, data, 8, &r);
  while (!net_is_lost(channels[1], &words)) net_progress();
  CHECK(strstr(words, "rank 1"));
  net_cancel(channels[1], &r);
}

/* The last message before an orderly end arrives, even if its receive is posted afterwards. */
static void goodbye(void) {
  uint64_t number = 5;
  net_request r;
  const char *words;
  if (me == 1) {
    CHECK(net_send(channels[0], 4, &number, sizeof number, &r) == ST_OK);
    CHECK(wait_for(&r) == 1);
    net_disconnect(channels[0]);
    net_close();
    barrier();
    _exit(0);
  }
  barrier();
  number = 0;
  while (!net_is_lost(channels[1], &words)) net_progress();
  CHECK(net_receive(channels[1], 4, &number, sizeof number, &r) == ST_OK);
  CHECK(wait_for(&r) == 1 && number == 5);
  CHECK(net_receive(channels[1], 4, &number, sizeof number, &r) == ST_COMM_REMOTE);
}

/* References: the same process is the same channel, and works until the last is gone, and again afterwards. */
static void references(void) {
  net_channel *again;
  net_request r;
  uint64_t number = 1;
  net_address own;
  CHECK(net_open(&own) == ST_OK);
  CHECK(memcmp(&own, &shared->addresses[me], sizeof own) == 0);
  CHECK(net_connect(&shared->addresses[1 - me], "the same", &again) == ST_OK);
  CHECK(again == channels[1 - me]);
  net_disconnect(again);
  for (int i = 0; i < 2; ++i) {
    CHECK((me ? net_receive(channels[0], 9, &number, 8, &r) : net_send(channels[1], 9, &number, 8, &r)) == ST_OK);
    CHECK(wait_for(&r) == 1);
    barrier();
    net_disconnect(channels[1 - me]);
    barrier();
    CHECK(net_connect(&shared->addresses[1 - me], "again", &channels[1 - me]) == ST_OK);
  }
  net_address wrong = own;
  wrong.bytes = 3;
  CHECK(net_connect(&wrong, "rank 9", &again) == ST_INVALID_VALUE);
  CHECK(strstr(fail_take(), "rank 9"));
  wrong = own;
  memcpy(wrong.data, "other\0\0", 8);
  CHECK(net_connect(&wrong, "rank 9", &again) == ST_INVALID_VALUE);
  CHECK(strstr(fail_take(), "CANNON_NET"));
}

/* Threads post at once, each with tags of its own. */
static void *ping(void *argument) {
  const uint64_t tag = (uint64_t)(uintptr_t)argument;
  static const size_t bytes[] = {8, 3000, 100000, 1000000};
  unsigned char *data = malloc(1000000);
  for (int i = 0; i < ROUNDS(50); ++i) {
    net_request r;
    const size_t n = bytes[(i + (int)tag) % 4];
    const bool sends = (i + (int)tag) % 2 == me;
    if (sends) memset(data, (int)tag + i, n);
    CHECK((sends ? net_send(channels[1 - me], tag, data, n, &r) : net_receive(channels[1 - me], tag, data, n, &r)) ==
          ST_OK);
    CHECK(wait_for(&r) == 1);
    for (size_t k = 0; k < n; k += 997) CHECK(data[k] == (unsigned char)((int)tag + i));
  }
  free(data);
  return NULL;
}

static void threads(void) {
  pthread_t all[4];
  for (uintptr_t i = 0; i < 4; ++i) CHECK(pthread_create(&all[i], NULL, ping, (void *)(i + 1)) == 0);
  for (int i = 0; i < 4; ++i) pthread_join(all[i], NULL);
}

/* A child of a process neither uses nor disturbs its connections, and may open an endpoint of its own. */
static void forked(void) {
  uint64_t number = 1;
  net_request r;
  const char *words;
  CHECK((me ? net_receive(channels[0], 9, &number, 8, &r) : net_send(channels[1], 9, &number, 8, &r)) == ST_OK);
  CHECK(wait_for(&r) == 1);
  const pid_t child = fork();
  if (child == 0) {
    net_address own;
    CHECK(net_is_lost(channels[1 - me], &words));
    CHECK(net_send(channels[1 - me], 9, &number, 8, &r) == ST_COMM_REMOTE);
    net_disconnect(channels[1 - me]);
    if (WITH_TSAN) _exit(0); /* which allows no thread after a fork */
    if (strcmp(implementation, "ucx") == 0) {
      CHECK(net_open(&own) == ST_NOT_SUPPORTED);
      _exit(0);
    }
    CHECK(net_open(&own) == ST_OK);
    CHECK(memcmp(&own, &shared->addresses[me], sizeof own) != 0);
    net_close();
    _exit(0);
  }
  int ended;
  CHECK(waitpid(child, &ended, 0) == child && ended == 0);
  CHECK((me ? net_send(channels[0], 9, &number, 8, &r) : net_receive(channels[1], 9, &number, 8, &r)) == ST_OK);
  CHECK(wait_for(&r) == 1);
  CHECK(!net_is_lost(channels[1 - me], &words));
}

/* Connections that are none of ours are closed, and nobody else notices. TCP only: there the port is known. */
static void garbage(void) {
  if (me == 0) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    memcpy(&to.sin_port, shared->addresses[1].data + 26, 2);
    for (int kind = 0; kind < 3; ++kind) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
      char text[200] = "GET / HTTP/1.1\r\n\r\n", answer;
      if (kind == 1) memcpy(text, "CANNON1\0and a number that is none of this endpoint", 48);
      if (kind < 2) CHECK(send(fd, text, kind ? 40 : 18, MSG_NOSIGNAL) > 0);
      if (kind < 2) CHECK(read(fd, &answer, 1) <= 0);
      close(fd);
    }
  }
  barrier();
  all_sizes();
}

static void ping_pongs(void) {
  uint64_t number = 0;
  net_request r;
  for (uint64_t i = 0; i < 1000; ++i) {
    CHECK(((i & 1) == (uint64_t)me ? net_send(channels[1 - me], 1, &i, 8, &r)
                                   : net_receive(channels[1 - me], 1, &number, 8, &r)) == ST_OK);
    CHECK(wait_for(&r) == 1);
    if ((i & 1) != (uint64_t)me) CHECK(number == i);
  }
}

/* With the argument "figures": one-way times. */
static void figures(void) {
  static const size_t bytes[] = {8, 64 << 10, 1 << 20, 16 << 20};
  unsigned char *data = calloc(1, 16 << 20);
  for (size_t k = 0; k < COUNT(bytes); ++k) {
    const int n = bytes[k] < MIB ? 4000 : 200;
    uint64_t start = 0;
    for (int i = -n / 10; i < n; ++i) {
      net_request r;
      if (i == 0) start = now_ns();
      CHECK(((i & 1) == me ? net_send(channels[1 - me], 1, data, bytes[k], &r)
                           : net_receive(channels[1 - me], 1, data, bytes[k], &r)) == ST_OK);
      CHECK(wait_for(&r) == 1);
    }
    const double us = (double)(now_ns() - start) / 1e3 / n;
    if (me == 0) printf("%s %9zu B: %9.2f us, %6.2f GB/s\n", implementation, bytes[k], us, (double)bytes[k] / us / 1e3);
    fflush(stdout);
  }
  free(data);
}

/* ---- the test's process --------------------------------------------------------------------------------- */

/* Runs the case in n processes. victim: a process that is killed, or -1. */
static void run(void (*body)(void), int n, int victim) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(shared != MAP_FAILED);
  pid_t pids[MOST_PROCESSES];
  fflush(NULL);
  for (int i = 0; i < n; ++i) {
    pids[i] = fork();
    if (pids[i]) continue;
    me = i;
    n_processes = n;
    n_barriers = 0;
    alarm(300);
    signal(SIGABRT, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    open_all();
    body();
    if (victim < 0) barrier();
    net_close();
    for (int p = 0; p < n; ++p)
      if (channels[p]) net_disconnect(channels[p]);
    _exit(0);
  }
  bool good = true;
  for (int i = 0; i < n; ++i) {
    int ended;
    assert_int_equal(waitpid(pids[i], &ended, 0), pids[i]);
    const bool as_expected = i == victim ? WIFSIGNALED(ended) || ended == 0 : ended == 0;
    if (!as_expected) print_error("process %d ended with %#x\n", i, (unsigned)ended);
    good &= as_expected;
    for (int p = i + 1; !as_expected && p < n; ++p) kill(pids[p], SIGKILL);
  }
  munmap(shared, sizeof *shared);
  assert_true(good);
}

#define CASE(body, n, victim)                                                                                          \
  static void test_##body(void **state) {                                                                              \
    (void)state;                                                                                                       \
    run(body, n, victim);                                                                                              \
  }
CASE(all_sizes, 2, -1)
CASE(both_ways, 2, -1)
CASE(without_polling, 2, -1)
CASE(cancelled, 2, -1)
CASE(mismatch, 2, -1)
CASE(killed, 2, 1)
CASE(never_reached, 2, 1)
CASE(references, 2, -1)
CASE(threads, 2, -1)
CASE(forked, 2, -1)
CASE(ping_pongs, 2, -1)
CASE(many_tags, 4, -1)
CASE(goodbye, 2, 1)
CASE(garbage, 2, -1)
CASE(cancelled_often, 2, -1)
CASE(figures, 2, -1)

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_sizes), cmocka_unit_test(test_both_ways),     cmocka_unit_test(test_many_tags),
      cmocka_unit_test(test_cancelled), cmocka_unit_test(test_mismatch),      cmocka_unit_test(test_killed),
      cmocka_unit_test(test_threads),   cmocka_unit_test(test_never_reached), cmocka_unit_test(test_references),
      cmocka_unit_test(test_forked),    cmocka_unit_test(test_ping_pongs),    cmocka_unit_test(test_without_polling),
  };
  const struct CMUnitTest of_tcp[] = {cmocka_unit_test(test_goodbye), cmocka_unit_test(test_garbage),
                                      cmocka_unit_test(test_cancelled_often)};
  const struct CMUnitTest timed[] = {cmocka_unit_test(test_figures)};
  const char *set = getenv("CANNON_NET");
  implementation = set ? set : "tcp";
  setenv("CANNON_NET", implementation, 1);
  setenv("HCCL_IF_IP", "127.0.0.1", 1);
  if (argc > 1 && strcmp(argv[1], "figures") == 0) return cmocka_run_group_tests(timed, NULL, NULL);
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  if (strcmp(implementation, "tcp") == 0) failed += cmocka_run_group_tests(of_tcp, NULL, NULL);
  return failed;
}
