/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variables that describe the devices. They are read once per process, so each case runs in a child
 * process. */
#include "runtime/device.h"

#include <sys/wait.h>
#include <unistd.h>

#include "memory/host.h"
#include "unit.h"

enum { MIB = 1 << 20 };

static void set(const char *name, const char *value) {
  if (value)
    setenv(name, value, 1);
  else
    unsetenv(name);
}

/* Runs `answer` in a child with these variables set and returns its exit status. */
static int ask(const char *n_devices, const char *visible, const char *device, const char *memory,
               int (*answer)(void)) {
  fflush(NULL);
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    set("CANNON_DEVICES", n_devices);
    set("ASCEND_RT_VISIBLE_DEVICES", visible);
    set("CANNON_DEVICE", device);
    set("CANNON_MEM", memory);
    _exit(answer());
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void visible_devices_are_counted_up_to_the_first_error(void **state) {
  (void)state;
  static const struct {
    const char *n_devices, *visible;
    int count;
  } cases[] = {
      {NULL, NULL, 1},  {"", NULL, 1},          {"0", NULL, 0},
      {"16", NULL, 16}, {"17", NULL, 0},        {"-1", NULL, 0},
      {"abc", NULL, 0}, {"1.5", NULL, 0},       {"4", "0,1,2,3", 4},
      {"4", "0", 1},    {"4", "3", 1},          {"4", "1,3", 2},
      {"4", "", 0},     {"4", ",", 0},          {"4", "0,", 1},
      {"4", "0,,1", 1}, {"4", "4", 0},          {"4", "0,4,1", 1},
      {"4", "1,0", 1},  {"4", "1,1", 1},        {"4", "0,1,2,3,4", 4},
      {"4", "-1", 0},   {"4", "0,-1", 1},       {"4", "a", 0},
      {"4", "0,a", 1},  {"4", "0,1a,2", 2},     {"4", "0 ,1", 1},
      {"4", " 0", 0},   {"4", "0;1", 1},        {"4", "00,01", 2},
      {"4", "0x1", 1},  {"4", "4294967296", 0}, {"4", "0,18446744073709551617", 1},
      {"4", "+1", 0},   {"0", "0", 0},          {NULL, "0,1", 1},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const int got = ask(cases[i].n_devices, cases[i].visible, NULL, NULL, device_count);
    if (got != cases[i].count)
      print_error("CANNON_DEVICES=%s ASCEND_RT_VISIBLE_DEVICES=%s: %d devices, expected %d\n",
                  cases[i].n_devices ? cases[i].n_devices : "(unset)", cases[i].visible ? cases[i].visible : "(unset)",
                  got, cases[i].count);
    assert_int_equal(got, cases[i].count);
  }
}

static int is_910b3(void) { return !strcmp(device_profile_of_all()->soc_name, "Ascend910B3"); }
static int is_310p3(void) { return !strcmp(device_profile_of_all()->soc_name, "Ascend310P3"); }

static void device_is_found_by_name(void **state) {
  (void)state;
  assert_true(ask(NULL, NULL, NULL, NULL, is_910b3));
  assert_true(ask(NULL, NULL, "", NULL, is_910b3));
  assert_true(ask(NULL, NULL, "ascend910b3", NULL, is_910b3));
  assert_true(ask(NULL, NULL, "310P3", NULL, is_310p3));
}

/* The device's memory in granules of 2 MiB. */
static int granules(void) { return (int)(device_memory_bytes() / (2 * MIB)); }
static int is_two_gib(void) { return device_memory_bytes() == (uint64_t)2048 * MIB; }
static int fits_the_host(void) {
  return device_memory_bytes() <= host_total_bytes() / 10 * 8 && device_memory_bytes() % (2 * MIB) == 0;
}

static void memory_is_as_requested_or_fits_the_host(void **state) {
  (void)state;
  assert_int_equal(ask(NULL, NULL, NULL, "8388608", granules), 4);
  assert_int_equal(ask(NULL, NULL, NULL, "8388607", granules), 3);
  assert_true(ask(NULL, NULL, NULL, NULL, fits_the_host));
  assert_true(ask(NULL, NULL, NULL, "", fits_the_host));
  static const struct {
    const char *memory;
    int granules;
  } suffixed[] = {{"8M", 4}, {"8192k", 4}, {"100m", 50}, {"2M", 1}};
  for (size_t i = 0; i < COUNT(suffixed); i++)
    assert_int_equal(ask(NULL, NULL, NULL, suffixed[i].memory, granules), suffixed[i].granules);
  assert_true(ask(NULL, NULL, NULL, "2G", is_two_gib));
}

static int no_devices(void) {
  return device_count() == 0 && device_check(0, "id") == ST_INVALID_DEVICE &&
         strstr(fail_take(), "there are no devices: CANNON_");
}

/* Returns what the process writes to stderr, up to the size of the buffer. */
static const char *words_about(const char *n_devices, const char *device, const char *memory, int (*answer)(void)) {
  static char words[400];
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  const int old = dup(STDERR_FILENO);
  assert_true(old >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
  const int done = ask(n_devices, NULL, device, memory, answer);
  assert_true(dup2(old, STDERR_FILENO) >= 0);
  close(old);
  close(ends[1]);
  const ssize_t n = read(ends[0], words, sizeof words - 1);
  close(ends[0]);
  assert_true(done && n >= 0);
  words[n] = '\0';
  return words;
}

static void bad_values_are_reported(void **state) {
  (void)state;
  static const struct {
    const char *text, *fault;
  } sizes[] = {{"many", ""},
               {"-1", ""},
               {"2GB", ""},
               {"2 G", ""},
               {"0", ", which is too small"},
               {"1", ", which is too small"},
               {"2047K", ", which is too small"},
               {"9999999999999G", ", which is too large"}};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    const char *words = words_about(NULL, NULL, sizes[i].text, no_devices);
    char wanted[200];
    snprintf(wanted, sizeof wanted,
             "cannon: CANNON_MEM is '%s'%s, expected a size from 2M to %s such as 512M, 1.5G or 32G (K, M, G or T); no "
             "device "
             "can be used\n",
             sizes[i].text, sizes[i].fault, WITH_TSAN ? "16G" : "1T");
    assert_string_equal(words, wanted);
  }
  assert_string_equal(words_about(NULL, NULL, "", fits_the_host), "");
  assert_string_equal(words_about(NULL, NULL, "5M", device_count),
                      "cannon: CANNON_MEM is 5M; taking 4M, whole pages of 2 MiB\n");
  assert_string_equal(
      words_about("17", NULL, "8M", no_devices),
      "cannon: CANNON_DEVICES is '17', which is too large, expected a number from 0 to 16; no device can be "
      "used\n");
  assert_string_equal(
      words_about(NULL, "Ascend", "8M", no_devices),
      "cannon: CANNON_DEVICE is 'Ascend', expected a profile that `cannon info` lists; no device can be "
      "used\n");
}

static int ids_are_checked(void) {
  return device_check(0, "id") == ST_OK && device_check(2, "id") == ST_OK &&
         device_check(3, "id") == ST_INVALID_DEVICE && strstr(fail_take(), "id is 3, expected 0 to 2") &&
         device_check(-1, "id") == ST_INVALID_DEVICE;
}

static void ids_are_indices_of_visible_devices(void **state) {
  (void)state;
  assert_true(ask("8", "2,5,7", NULL, NULL, ids_are_checked));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(visible_devices_are_counted_up_to_the_first_error),
      cmocka_unit_test(device_is_found_by_name),
      cmocka_unit_test(memory_is_as_requested_or_fits_the_host),
      cmocka_unit_test(bad_values_are_reported),
      cmocka_unit_test(ids_are_indices_of_visible_devices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
