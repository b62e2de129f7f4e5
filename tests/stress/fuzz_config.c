/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz test of aclInit's configuration file: any content is accepted or refused with one of the documented codes, and
 * the library remains usable. LLVMFuzzerTestOneInput is libFuzzer's entry point; without libFuzzer, main() mutates a
 * few seeds:
 *
 *   stress_fuzz_config [INPUTS]
 *   clang -fsanitize=fuzzer -DWITH_LIBFUZZER ... */
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/acl.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
  NO_FILE = 100003,
  NO_JSON = 100006,
  BAD_VALUE = 100008,
  BAD_DUMP = 100009,
  BAD_PROFILER = 100010,
  NO_DEVICE = 107001,
  NO_SUCH_DUMP = 207000,
};
enum { ANY_ERROR = -1 }; /* as the expected code of a seed: any of the above */

static aclError init_with(const void *data, size_t size) {
  static int file = -1;
  char path[64];
  if (file < 0) file = memfd_create("config", MFD_CLOEXEC);
  HOLDS(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  return aclInit(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const aclError got = init_with(data, size);
  const char *message = aclGetRecentErrMsg();
  HOLDS(got == ACL_SUCCESS || got == NO_FILE || got == NO_JSON || got == BAD_VALUE || got == BAD_DUMP ||
        got == BAD_PROFILER || got == NO_DEVICE || got == NO_SUCH_DUMP);
  HOLDS((got == ACL_SUCCESS) == !message);
  HOLDS((aclFinalize() == ACL_SUCCESS) == (got == ACL_SUCCESS)); /* after a refusal the library is not initialised */
  aclGetRecentErrMsg();
  return 0;
}

#ifndef WITH_LIBFUZZER

#  define TEN(x) x x x x x x x x x x

/* Seeds, and the code that each must give. */
static const struct {
  const char *text;
  aclError code;
} seeds[] = {
    {"{}", ACL_SUCCESS},
    {" { } ", ACL_SUCCESS},
    {"{\"defaultDevice\":{\"default_device\":\"0\"}}", ACL_SUCCESS},
    {"{\"defaultDevice\":{\"default_device\":0}, \"err_msg_mode\":\"1\"}", ACL_SUCCESS},
    {"{\"err_msg_mode\":0}", ACL_SUCCESS},
    {"{\"dump\":{\"dump_list\":[{\"model_name\":\"m\",\"layer\":[\"a\",\"b\"]}],\"dump_path\":\"/"
     "tmp\",\"dump_mode\":\"all\"}}",
     ACL_SUCCESS},
    {"{\"dump\":{\"dump_path\":\"/nonexistent\",\"dump_op_switch\":\"on\"}}", BAD_DUMP},
    {"{\"dump\":{\"dump_scene\":\"lite_exception\"}}", ACL_SUCCESS},
    {"{\"dump\":{\"dump_path\":\"/tmp\",\"dump_debug\":\"on\"}}", NO_SUCH_DUMP},
    {"{\"profiler\":{\"switch\":\"on\",\"aic_metrics\":\"\\u00e4\\ud83d\\ude00\"},\"StackSize\":{\"aicore_stack_size\":"
     "32768}}",
     BAD_PROFILER},
    {"{\"profiler\":{\"switch\":\"off\",\"output\":\"out\",\"storage_limit\":\"300MB\"}}", ACL_SUCCESS},
    {"{\"a\":[[[[[[[[[[1]]]]]]]]]]}", ACL_SUCCESS},
    {"{\"a\":[[[[[[[[[[[1]]]]]]]]]]]}", NO_JSON},
    {"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}}}}}}", ACL_SUCCESS},
    {"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}}}}}}}", NO_JSON},
    {"", NO_JSON},
    {"{", NO_JSON},
    {"[]", NO_JSON},
    {"1", NO_JSON},
    {"null", NO_JSON},
    {"{}}", NO_JSON},
    {"{\"a\":1,}", NO_JSON},
    {"{\"a\":1 \"b\":2}", NO_JSON},
    {"{\"a\":\"\\ud800\"}", NO_JSON},
    {"{\"err_msg_mode\":2}", BAD_VALUE},
    {"{\"err_msg_mode\":\"x\"}", BAD_VALUE},
    {"{\"err_msg_mode\":null}", BAD_VALUE},
    {"{\"defaultDevice\":{}}", BAD_VALUE},
    {"{\"defaultDevice\":7}", BAD_VALUE},
    {"{\"defaultDevice\":{\"default_device\":\"\"}}", BAD_VALUE},
    {"{\"defaultDevice\":{\"default_device\":\"0x\"}}", BAD_VALUE},
    {"{\"defaultDevice\":{\"default_device\":[0]}}", BAD_VALUE},
    {"{\"defaultDevice\":{\"default_device\":0.5}}", BAD_VALUE},
    {"{\"defaultDevice\":{\"default_device\":\"-1\"}}", NO_DEVICE},
    {"{\"defaultDevice\":{\"default_device\":9999}}", NO_DEVICE},
    {"{\"defaultDevice\":{\"default_device\":1e300}}", ANY_ERROR},
    {"{\"defaultDevice\":{\"default_device\":\"4294967296\"}}", ANY_ERROR},
    {"{\"a\":" TEN(TEN(TEN(TEN("[")))), NO_JSON},
};
enum { N_SEEDS = sizeof seeds / sizeof *seeds, MAX_BYTES = 1 << 14 };

static const char *const words[] = {"{",
                                    "}",
                                    "[",
                                    "]",
                                    "\"",
                                    ":",
                                    ",",
                                    "\\",
                                    "\\u",
                                    "null",
                                    "true",
                                    "1e999",
                                    "-",
                                    "0",
                                    "9999999999999999999999",
                                    "\"defaultDevice\":",
                                    "\"default_device\":",
                                    "\"err_msg_mode\":",
                                    "\xff",
                                    "\xc3",
                                    "/*",
                                    "//",
                                    "\t",
                                    NULL};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f) {
  (void)st;
  (void)type;
  (void)f;
  return remove(path);
}

int main(int argc, char **argv) {
  static char text[MAX_BYTES];
  /* working folder, in which configurations that enable profiling write their files */
  char folder[] = "/tmp/fuzz-config-XXXXXX";
  HOLDS(mkdtemp(folder) && chdir(folder) == 0);
  const long inputs = argc > 1 ? atol(argv[1]) : 10000;
  int wrong = 0;
  for (int i = 0; i < N_SEEDS; i++) {
    const aclError got = init_with(seeds[i].text, strlen(seeds[i].text));
    if (seeds[i].code == ANY_ERROR ? !got : got != seeds[i].code) {
      fprintf(stderr, "%.80s\n  gave %d, expected %d\n", seeds[i].text, got, seeds[i].code);
      wrong = 1;
    }
    if (got == ACL_SUCCESS) aclFinalize();
    aclGetRecentErrMsg();
  }
  HOLDS(aclInit("/none/such") == NO_FILE && aclInit("") == NO_FILE && aclInit("/") == NO_FILE);
  aclGetRecentErrMsg();
  for (long i = 0; i < inputs; i++) {
    const char *from = seeds[fuzz_below(N_SEEDS)].text;
    size_t size = strlen(from);
    memcpy(text, from, size);
    for (uint32_t n = 1 + fuzz_below(6); n; n--) size = fuzz_mutate(text, size, MAX_BYTES, words);
    LLVMFuzzerTestOneInput((const uint8_t *)text, size);
  }
  nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  return wrong;
}
#endif
