/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks as numbers: equal stacks have equal numbers, and what a thread has unwound it recognises. stack_start() is not
 * called, so that the frames of this program, which contains the library, count as the program's. */
#include "trace/stack.h"

#include <pthread.h>

#include "unit.h"

static uint32_t (*volatile take)(void) = stack_take; /* volatile: each call stays a call of its own */

__attribute__((noinline)) static uint32_t from_here(void) {
  const uint32_t number = take();
  __asm__ volatile("" ::: "memory"); /* no tail call */
  return number;
}

__attribute__((noinline)) static uint32_t from_there(void) {
  const uint32_t number = take();
  __asm__ volatile("" ::: "memory");
  return number;
}

__attribute__((noinline)) static uint32_t from_depth(int depth) {
  const uint32_t number = depth ? from_depth(depth - 1) : take();
  __asm__ volatile("" ::: "memory");
  return number;
}

static void one_place_has_one_number(void **state) {
  (void)state;
  enum { ROUNDS_OF_ALL = 100 };
  uint32_t number[ROUNDS_OF_ALL];
  uint64_t unwound[ROUNDS_OF_ALL];
  for (volatile int i = 0; i < ROUNDS_OF_ALL; ++i) {
    number[i] = from_here();
    unwound[i] = stack_n_unwound();
  }
  for (int i = 1; i < ROUNDS_OF_ALL; ++i) assert_int_equal(number[i], number[1]); /* the compiler may peel a loop */
  assert_int_not_equal(number[1], 0);
  (void)unwound; /* elsewhere and with sanitizers, stacks are unwound each time */
#if defined(__x86_64__) && !WITH_ASAN && !WITH_TSAN
  assert_int_equal(unwound[ROUNDS_OF_ALL - 1], unwound[1]); /* it was recognised */
#endif
}

static void different_places_have_different_numbers(void **state) {
  (void)state;
  uint32_t number[6];
  for (int round = 0; round < 3; ++round) {
    uint32_t again[] = {from_here(), from_here(), from_there(), from_depth(0), from_depth(1), from_depth(5)};
    if (!round) memcpy(number, again, sizeof number);
    assert_memory_equal(again, number, sizeof number);
  }
  for (size_t i = 0; i < COUNT(number); ++i)
    for (size_t j = 0; j < i; ++j) assert_int_not_equal(number[i], number[j]);
}

/* Calls of one function from two lines, with the same place on the stack: only an outer return address differs. */
static void callers_are_told_apart(void **state) {
  (void)state;
  uint32_t (*volatile call)(void) = from_here;
  uint32_t a = 0, b = 0;
  for (int i = 0; i < 50; ++i) {
    const uint32_t one = call();
    const uint32_t two = call();
    if (!i) a = one;
    if (!i) b = two;
    assert_int_equal(one, a);
    assert_int_equal(two, b);
  }
  assert_int_not_equal(a, b);
}

static void frames_begin_with_the_caller(void **state) {
  (void)state;
  void *const *frame;
  const uint32_t n = stack_frames(from_depth(40), &frame);
  assert_int_equal(n, STACK_FRAMES); /* of many, the innermost ones */
  for (uint32_t i = 4; i < n; ++i) assert_ptr_equal(frame[i], frame[3]);
  assert_int_equal(stack_frames(0, &frame), 0);
  assert_null(frame);
  assert_int_equal(stack_frames(UINT32_MAX, &frame), 0);
  const python_line *line;
  assert_int_equal(stack_python(1, &line), 0);
}

static void *take_in_thread(void *number) {
  for (int i = 0; i < 1000; ++i) *(uint32_t *)number = from_here();
  return NULL;
}

static void threads_agree(void **state) {
  (void)state;
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  uint32_t number[THREADS];
  for (int i = 0; i < THREADS; ++i) assert_int_equal(pthread_create(&thread[i], NULL, take_in_thread, &number[i]), 0);
  for (int i = 0; i < THREADS; ++i) pthread_join(thread[i], NULL);
  for (int i = 1; i < THREADS; ++i) assert_int_equal(number[i], number[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_place_has_one_number),
      cmocka_unit_test(different_places_have_different_numbers),
      cmocka_unit_test(callers_are_told_apart),
      cmocka_unit_test(frames_begin_with_the_caller),
      cmocka_unit_test(threads_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
