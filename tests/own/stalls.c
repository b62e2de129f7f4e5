/* SPDX-License-Identifier: Apache-2.0 */
/* Waits that never end: each program is a process of its own, which must say on stderr what its table entry says, once;
 * and programs whose waits can end, which must say nothing. */
#include "acl_ops.h"

#include <sys/time.h>

#include "aclnnop/aclnn_add.h"
#include "self.h"

enum { SOON_MS = 50, LONG_MS = 2600 }; /* LONG_MS: longer than it takes to tell of a wait that a call may still end */

static aclrtStream one, two;
static aclrtEvent first, second;
static aclrtNotify signal_one, signal_two;

static void make_all(void) {
  CHECK_OK(aclrtCreateStream(&one));
  CHECK_OK(aclrtCreateStream(&two));
  CHECK_OK(aclrtCreateEvent(&first));
  CHECK_OK(aclrtCreateEvent(&second));
  CHECK_OK(aclrtCreateNotify(&signal_one, 0));
  CHECK_OK(aclrtCreateNotify(&signal_two, 0));
}

/* Waits with a limit, so that the program ends. */
static void wait_for(aclrtStream stream, int ms) {
  CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, ms));
}

/* ---- waits that never end ---------------------------------------------------------------------------------------- */

static void destroyed_event(void) {
  CHECK_OK(aclrtStreamWaitEvent(one, first));
  CHECK_OK(aclrtDestroyEvent(first));
  wait_for(one, SOON_MS);
  wait_for(one, SOON_MS);
}

/* The second stream waits for an event of the first one. */
static void destroyed_event_of_another_stream(void) {
  CHECK_OK(aclrtStreamWaitEvent(one, first));
  CHECK_OK(aclrtRecordEvent(second, one));
  CHECK_OK(aclrtStreamWaitEvent(two, second));
  CHECK_OK(aclrtDestroyEvent(first));
  wait_for(two, SOON_MS);
}

static void end_program(int signal) {
  (void)signal;
  _exit(0);
}

/* For a wait without a limit: the program ends nevertheless, after a while. */
static void end_after(int ms) {
  const struct itimerval when = {.it_value = {ms / 1000, ms % 1000 * 1000}};
  signal(SIGALRM, end_program);
  setitimer(ITIMER_REAL, &when, NULL);
}

static void destroyed_event_at_reset(void) {
  CHECK_OK(aclrtStreamWaitEvent(one, first));
  CHECK_OK(aclrtDestroyEvent(first));
  end_after(500);
  aclrtResetDevice(0);
}

static void streams_that_wait_for_each_other(void) {
  CHECK_OK(aclrtStreamWaitEvent(one, first));
  CHECK_OK(aclrtStreamWaitEvent(two, second));
  CHECK_OK(aclrtRecordEvent(second, one));
  CHECK_OK(aclrtRecordEvent(first, two));
  wait_for(one, SOON_MS);
  wait_for(two, SOON_MS);
}

static void stream_that_waits_for_itself(void) {
  CHECK_OK(aclrtStreamWaitEvent(one, first));
  CHECK_OK(aclrtRecordEvent(first, one));
  wait_for(one, SOON_MS);
}

static void destroyed_notify(void) {
  CHECK_OK(aclrtWaitAndResetNotify(signal_one, one, 0));
  CHECK_OK(aclrtDestroyNotify(signal_one));
  wait_for(one, SOON_MS);
}

static void streams_that_wait_for_notifies_of_each_other(void) {
  CHECK_OK(aclrtWaitAndResetNotify(signal_one, one, 0));
  CHECK_OK(aclrtWaitAndResetNotify(signal_two, two, 0));
  CHECK_OK(aclrtRecordNotify(signal_two, one));
  CHECK_OK(aclrtRecordNotify(signal_one, two));
  CHECK_OK(aclrtDestroyNotify(signal_one));
  CHECK_OK(aclrtDestroyNotify(signal_two));
  wait_for(one, SOON_MS);
  wait_for(two, SOON_MS);
}

static void freed_word(void) {
  uint64_t *word = dev_filled(0, 4096);
  CHECK_OK(aclrtValueWait(word, 1, 1, one));
  CHECK_OK(aclrtFree(word));
  wait_for(one, SOON_MS);
}

/* A call may still end these waits, so the program is told later. */
static void event_that_nobody_records(void) {
  CHECK_OK(aclrtStreamWaitEvent(one, first));
  wait_for(one, LONG_MS);
}

/* The program has no other thread, so it is told at once; or later, where an emulator or a sanitizer has one. */
static void event_that_no_thread_can_record(void) {
  CHECK_OK(aclrtStreamWaitEvent(one, first));
  end_after(LONG_MS);
  aclrtSynchronizeStream(one);
}

static void word_that_nobody_writes(void) {
  uint64_t *word = dev_filled(0, 4096);
  CHECK_OK(aclrtValueWait(word, 7, 1, one));
  wait_for(one, LONG_MS);
}

/* ---- waits that end ---------------------------------------------------------------------------------------------- */

static void *open_later(void *g) {
  nap_ms(SOON_MS);
  gate_open(g);
  return NULL;
}

/* The other stream records, behind a function of the program's, what was destroyed meanwhile. */
static void destroyed_after_its_record(void) {
  gate *g = gate_close(two);
  CHECK_OK(aclrtRecordEvent(first, two));
  CHECK_OK(aclrtRecordNotify(signal_one, two));
  CHECK_OK(aclrtStreamWaitEvent(one, first));
  CHECK_OK(aclrtWaitAndResetNotify(signal_one, one, 0));
  CHECK_OK(aclrtDestroyEvent(first));
  CHECK_OK(aclrtDestroyNotify(signal_one));
  const pthread_t thread = thread_start(open_later, g);
  CHECK_OK(aclrtSynchronizeStream(one));
  pthread_join(thread, NULL);
}

static void *record_later(void *unused) {
  nap_ms(SOON_MS);
  aclrtSetDevice(0);
  aclrtRecordEvent(first, two);
  return unused;
}

static void recorded_by_another_thread(void) {
  CHECK_OK(aclrtStreamWaitEvent(one, first));
  const pthread_t thread = thread_start(record_later, NULL);
  CHECK_OK(aclrtSynchronizeStream(one));
  pthread_join(thread, NULL);
}

static void wait_with_a_limit(void) {
  CHECK_OK(aclrtStreamWaitEventWithTimeout(one, first, 1));
  CHECK_OK(aclrtDestroyEvent(first));
  CHECK_FAILS(aclrtSynchronizeStream(one));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  void (*run)(void);
  const char *words[3]; /* which the message has; none: there is no message */
} program;
#define PROGRAM(function, ...)                                                                                         \
  {                                                                                                                    \
#    function, function, { __VA_ARGS__ }                                                                               \
  }
static const program programs[] = {
    PROGRAM(destroyed_event, "(event wait), for a record of event", "which thread", "has destroyed"),
    PROGRAM(destroyed_event_of_another_stream, "has destroyed", "no call can", "waits for that"),
    PROGRAM(destroyed_event_at_reset, "has destroyed", "no call can", "goes on waiting"),
    PROGRAM(streams_that_wait_for_each_other, "streams wait for each other: stream", "; stream", "behind that wait"),
    PROGRAM(stream_that_waits_for_itself, "(event wait), for event", "behind that wait", "Submit a task before"),
    PROGRAM(destroyed_notify, "(notify wait), for a record of notify", "which thread", "has destroyed"),
    PROGRAM(streams_that_wait_for_notifies_of_each_other, "streams wait for each other: stream", "; stream", "notify"),
    PROGRAM(freed_word, "(value wait), for the word at 0x", "which was freed", "no call can"),
    PROGRAM(event_that_nobody_records, "(event wait), for a record of event", "since 2 s",
            "a call of the program must"),
    PROGRAM(event_that_no_thread_can_record, "(event wait), for a record of event", "No task that is queued"),
    PROGRAM(word_that_nobody_writes, "(value wait), for the word at 0x", "since 2 s", "a call of the program must"),
    PROGRAM(destroyed_after_its_record, NULL),
    PROGRAM(recorded_by_another_thread, NULL),
    PROGRAM(wait_with_a_limit, NULL),
};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

/* The programs of a table end without giving back what they wait for. */
static int run_one(const char *name) {
  for (int i = 0; i < N_PROGRAMS; i++) {
    if (strcmp(programs[i].name, name) != 0) continue;
    aclInit(NULL);
    aclrtSetDevice(0);
    make_all();
    programs[i].run();
    _exit(0);
  }
  return 127;
}

static const char *running;
static void the_only_program(void **state) {
  (void)state;
  run_one(running);
}

/* The number of messages of waits. */
static int count_messages(const char *text) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, "goes on waiting")); at++) n++;
  return n;
}

static bool is_good(const program *p) {
  static child_end end;
  run_self(&end, p->name, NULL);
  bool good = end.status == 0 && count_messages(end.text) == (p->words[0] ? 1 : 0);
  for (int i = 0; i < 3; i++) good &= !p->words[i] || strstr(end.text, p->words[i]);
  if (!good) print_error("%s: status %#x, output:\n%s\n", p->name, (unsigned)end.status, end.text);
  return good;
}

static void endless_waits_are_told(void **state) {
  (void)state;
  int n_bad = 0;
  for (int i = 0; i < N_PROGRAMS; i++) n_bad += !is_good(&programs[i]);
  assert_int_equal(n_bad, 0);
}

int main(int argc, char **argv) {
  running = argc > 1 ? argv[1] : NULL;
  const struct CMUnitTest child[] = {cmocka_unit_test(the_only_program)};
  const struct CMUnitTest tests[] = {cmocka_unit_test(endless_waits_are_told)};
  return running ? cmocka_run_group_tests(child, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
