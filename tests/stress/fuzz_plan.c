/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz test of the tables for `cannon plan`: each is read, or refused with its line number; what was read is planned,
 * or refused by the planner; a plan is valid, and unchanged after writing and reading it. LLVMFuzzerTestOneInput is
 * libFuzzer's entry point; without libFuzzer, main() mutates a few seeds:
 *
 *   stress_fuzz_plan [INPUTS] */
#include "cli/plan/plan_csv.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BYTES = 1 << 12 };

/* Written with its offsets and read again, a table has the same buffers at these offsets. */
static void check_written(const plan_file *file, const uint64_t *offsets) {
  char *text = NULL, error[256] = "";
  size_t n = 0;
  plan_file again;
  FILE *f = open_memstream(&text, &n);
  HOLDS(plan_csv_write(f, file, offsets, 0) && fclose(f) == 0);
  HOLDS(plan_csv_is_plan(text, n));
  HOLDS(plan_csv_read(text, n, &again, error) && again.has_offsets);
  HOLDS(again.problem.n_buffers == file->problem.n_buffers);
  for (size_t b = 0; b < file->problem.n_buffers; ++b)
    HOLDS(again.offsets[b] == offsets[b] && again.problem.buffers[b].size == file->problem.buffers[b].size);
  plan_csv_free(&again);
  free(text);
}

static void check_planned(const plan_file *file) {
  static uint64_t offsets[MAX_BYTES];
  cannon_plan_result result, checked;
  const cannon_plan_options options = {.max_nodes = 300};
  const cannon_plan_error error = cannon_plan(&file->problem, &options, offsets, &result);
  HOLDS((error == CANNON_PLAN_OK) == !*result.message && error != CANNON_PLAN_NULL);
  if (error) return;
  HOLDS(result.end.bound <= result.end.peak);
  HOLDS(cannon_plan_check(&file->problem, offsets, &checked) == CANNON_PLAN_OK);
  HOLDS(checked.end.peak == result.end.peak);
  check_written(file, offsets);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  plan_file file;
  char error[256] = "";
  char *text = malloc(size + 1); /* exact size, so that a sanitizer detects reads past the end */
  HOLDS(text);
  memcpy(text, data, size);
  if (plan_csv_read(text, size, &file, error)) {
    HOLDS(!*error);
    check_planned(&file);
    plan_csv_free(&file);
  } else {
    HOLDS(strncmp(error, "line ", 5) == 0 && !file.problem.buffers);
  }
  free(text);
  return 0;
}

#ifndef WITH_LIBFUZZER

static const char *const seeds[] = {
    "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n",
    "buffer,start,end,size,alignment\na,0,3,4,8\nb,1,2,100,\nc,2,2,7,3\n",
    "id,lower,upper,size,gaps\na,0,30,40,3-5 7-9@0:8\nb,2,20,16,\nc,1,9,8,1-9@4:4\n",
    "id,lower,upper,size,offset,alias,in_place_of\r\na,0,9,40,0,,\r\nb,2,20,16,,a c,\r\nc,9,11,8,,,a\r\n",
    "size,upper,lower,buffer_id,hint\n4611686018427387904,2,1,x,7\n1,5,0,y,-1\n",
};
enum { N_SEEDS = sizeof seeds / sizeof *seeds };

static const char *const words[] = {",",
                                    "\n",
                                    "\r",
                                    "-",
                                    "@",
                                    ":",
                                    " ",
                                    "0",
                                    "1",
                                    "2305843009213693952",
                                    "18446744073709551616",
                                    "id",
                                    "end",
                                    "offset",
                                    "a",
                                    "in_place_of",
                                    "alias",
                                    "gaps",
                                    "\xff",
                                    "alignment",
                                    NULL};

int main(int argc, char **argv) {
  static char text[MAX_BYTES];
  const long inputs = argc > 1 ? atol(argv[1]) : 10000;
  for (int i = 0; i < N_SEEDS; ++i) LLVMFuzzerTestOneInput((const uint8_t *)seeds[i], strlen(seeds[i]));
  for (long i = 0; i < inputs; ++i) {
    const char *from = seeds[fuzz_below(N_SEEDS)];
    size_t size = strlen(from);
    memcpy(text, from, size);
    /* A wrong first line ends the parsing, so in most cases the first line is not mutated. */
    const size_t kept = fuzz_below(8) ? strcspn(from, "\n") + 1 : 0;
    for (uint32_t n = 1 + fuzz_below(3); n; --n)
      size = kept + fuzz_mutate(text + kept, size - kept, MAX_BYTES - kept, words);
    LLVMFuzzerTestOneInput((const uint8_t *)text, size);
  }
  return 0;
}

#endif
