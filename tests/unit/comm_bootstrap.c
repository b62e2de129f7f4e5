/* SPDX-License-Identifier: Apache-2.0 */
/* Bootstrap sessions between forked processes: exchanges, and what goes wrong. */
#include "unit.h"

#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/start/bootstrap_private.h"

static unsigned char *info; /* BOOTSTRAP_INFO_BYTES, which child processes share */

static void make_root(uint32_t timeout_ms) {
  bootstrap_test_timeout_ms = timeout_ms;
  assert_int_equal(bootstrap_root_info(info), ST_OK);
}

/* One rank's exchanges, with cards of several sizes. 0 if all are right. */
static int exchange_rounds(uint32_t n, uint32_t rank, uint32_t rounds) {
  bootstrap *b;
  if (bootstrap_join(info, n, rank, &b) != ST_OK) return 1;
  for (uint32_t i = 0; i < rounds; ++i) {
    const size_t bytes = i * i * 1000 % (BOOTSTRAP_MAX_CARD + 1);
    unsigned char *own = malloc(bytes + 1), *all = malloc(n * bytes + 1);
    memset(own, (int)(rank * 7 + i), bytes);
    if (bootstrap_exchange(b, own, bytes, all) != ST_OK) return 2;
    for (size_t j = 0; j < n * bytes; ++j)
      if (all[j] != (unsigned char)(j / bytes * 7 + i)) return 3;
    free(own);
    free(all);
  }
  bootstrap_leave(b);
  return 0;
}

static void all_exit_with_0(uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    int how = -1;
    assert_true(wait(&how) > 0);
    assert_int_equal(how, 0);
  }
}

static void exchanges_between_processes(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= 16; n += 3) {
    int begin[2]; /* closed when the root is there */
    assert_int_equal(pipe(begin), 0);
    for (uint32_t r = 0; r < n; ++r) {
      if (fork()) continue;
      char none;
      close(begin[1]);
      _exit(read(begin[0], &none, 1) ? 4 : exchange_rounds(n, r, 9));
    }
    make_root(
        60000); /* now: a child is not to be forked while the root's thread holds a lock of the sanitizers' malloc */
    close(begin[0]);
    close(begin[1]);
    all_exit_with_0(n);
  }
}

static void one_thread_has_several_ranks(void **state) {
  (void)state;
  bootstrap *b[4];
  uint32_t own[4] = {10, 11, 12, 13}, all[4];
  make_root(60000);
  for (uint32_t r = 0; r < 4; ++r) assert_int_equal(bootstrap_join(info, 4, r, &b[r]), ST_OK);
  assert_int_equal(bootstrap_exchange_many(b, 4, own, 4, all), ST_OK);
  assert_memory_equal(all, own, sizeof all);
  for (uint32_t r = 0; r < 4; ++r) bootstrap_leave(b[r]);
}

static void expect_words(status got, const char *words) {
  assert_int_not_equal(got, ST_OK);
  const char *message = fail_take();
  if (!strstr(message, words)) print_error("got '%s', expected '%s'\n", message, words);
  assert_non_null(strstr(message, words));
}

static void wrong_joins(void **state) {
  (void)state;
  bootstrap *a, *b;
  uint32_t card = 1, all[3];
  make_root(60000);
  info[70] ^= 1;
  expect_words(bootstrap_join(info, 2, 0, &a), "rootInfo");
  info[70] ^= 1;
  info[offsetof(bootstrap_info, session)] ^= 1;
  expect_words(bootstrap_join(info, 2, 0, &a), "damaged");
  info[offsetof(bootstrap_info, session)] ^= 1;
  info[offsetof(bootstrap_info, version)] ^= 2;
  expect_words(bootstrap_join(info, 2, 0, &a), "version 3");
  info[offsetof(bootstrap_info, version)] ^= 2;
  assert_int_equal(bootstrap_join(info, 2, 0, &a), ST_OK);
  expect_words(bootstrap_join(info, 3, 1, &b), "nRanks is 3");
  expect_words(bootstrap_exchange(a, &card, 4, all), "nRanks is 3");
  bootstrap_leave(a);
  make_root(60000);
  assert_int_equal(bootstrap_join(info, 2, 0, &a), ST_OK);
  expect_words(bootstrap_join(info, 2, 0, &b), "joined twice");
  expect_words(bootstrap_exchange(a, &card, 4, all), "joined twice");
  bootstrap_abandon(a, "");
}

static void ranks_that_end(void **state) {
  (void)state;
  bootstrap *a, *b;
  uint32_t card = 1, all[2];
  int how;
  make_root(60000);
  if (fork() == 0) _exit(bootstrap_join(info, 2, 1, &b) != ST_OK);
  assert_true(wait(&how) > 0 && how == 0);
  if (bootstrap_join(info, 2, 0, &a) == ST_OK) {
    expect_words(bootstrap_exchange(a, &card, 4, all), "rank 1");
    bootstrap_leave(a);
  } else
    expect_words(ST_COMM_REMOTE, "rank 1");
  make_root(60000);
  assert_int_equal(bootstrap_join(info, 2, 0, &a), ST_OK);
  assert_int_equal(bootstrap_join(info, 2, 1, &b), ST_OK);
  bootstrap_abandon(b, "no memory");
  expect_words(bootstrap_exchange(a, &card, 4, all), "gave up: no memory");
  bootstrap_leave(a);
  make_root(60000);
  assert_int_equal(bootstrap_join(info, 2, 0, &a), ST_OK);
  assert_int_equal(bootstrap_join(info, 2, 1, &b), ST_OK);
  bootstrap_leave(b);
  expect_words(bootstrap_exchange(a, &card, 4, all), "left before exchange 0");
  bootstrap_leave(a);
}

static void missing_ranks(void **state) {
  (void)state;
  bootstrap *a;
  uint32_t card = 1, all[6];
  make_root(200);
  assert_int_equal(bootstrap_join(info, 6, 1, &a), ST_OK);
  expect_words(bootstrap_exchange(a, &card, 4, all), "rank 0, 2 to 5");
  bootstrap_leave(a);
}

static void garbage_is_ignored(void **state) {
  (void)state;
  const bootstrap_info *i = (const void *)info;
  struct sockaddr_in to = {.sin_family = AF_INET};
  random_source random = {1};
  char byte;
  make_root(60000);
  if (i->family != 4) skip();
  to.sin_port = htons(i->port);
  memcpy(&to.sin_addr, i->ip, 4);
  for (int k = 0; k < 50; ++k) {
    unsigned char junk[300];
    for (size_t j = 0; j < sizeof junk; ++j) junk[j] = (unsigned char)random_next(&random);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (void *)&to, sizeof to), 0);
    send(fd, junk, sizeof junk, MSG_NOSIGNAL);
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
  }
  assert_int_equal(exchange_rounds(1, 0, 3), 0);
}

/* The local port of this process's connection to a port. */
static uint16_t own_port_of_connection(uint16_t to) {
  for (int fd = 3; fd < 1024; ++fd) {
    struct sockaddr_in peer, own;
    socklen_t bytes = sizeof peer;
    if (getpeername(fd, (void *)&peer, &bytes) != 0 || ntohs(peer.sin_port) != to) continue;
    bytes = sizeof own;
    if (getsockname(fd, (void *)&own, &bytes) == 0) return ntohs(own.sin_port);
  }
  return 0;
}

/* The kernel may give a rank's connection the port that is HCCL_IF_BASE_PORT, which is among its ports by default. */
static void a_rank_table_has_the_port_of_a_connection(void **state) {
  (void)state;
  const bootstrap_info *i = (const void *)info;
  struct sockaddr_storage address = {.ss_family = AF_INET};
  struct sockaddr_in *four = (void *)&address;
  unsigned char table[BOOTSTRAP_INFO_BYTES];
  bootstrap *a, *b;
  make_root(60000);
  if (i->family != 4) skip();
  assert_int_equal(bootstrap_join(info, 1, 0, &a), ST_OK);
  memcpy(&four->sin_addr, i->ip, 4);
  four->sin_port = htons(own_port_of_connection(i->port));
  assert_int_not_equal(four->sin_port, 0);
  assert_int_equal(bootstrap_table_root(&address, 7), ST_OK);
  bootstrap_table_info(&address, 7, table);
  assert_int_equal(bootstrap_join(table, 1, 0, &b), ST_OK);
  expect_words(bootstrap_table_root(&address, 7), "HCCL_IF_BASE_PORT"); /* somebody listens there now */
  bootstrap_leave(b);
  bootstrap_leave(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exchanges_between_processes),
      cmocka_unit_test(one_thread_has_several_ranks),
      cmocka_unit_test(wrong_joins),
      cmocka_unit_test(ranks_that_end),
      cmocka_unit_test(missing_ranks),
      cmocka_unit_test(garbage_is_ignored),
      cmocka_unit_test(a_rank_table_has_the_port_of_a_connection),
  };
  info = mmap(NULL, BOOTSTRAP_INFO_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (info == MAP_FAILED) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
