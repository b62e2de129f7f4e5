/* SPDX-License-Identifier: Apache-2.0 */
/* cannon test: tests operators. The Python package cannon.testing of this installation does it; this command gives it
 * the installation's environment, and becomes it. */
#include "cli/commands.h"
#include "cli/environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The text of python/cannon/testing/help.txt, which the package prints as well, embedded from the source folder. */
__asm__(".pushsection .rodata\n"
        ".global test_help\n"
        "test_help: .incbin \"" TEST_HELP "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char test_help[];

enum { TEST_WORDS = 4 }; /* before the arguments */

int command_test(int argc, char **argv) {
  if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    fputs(test_help, stdout);
    return 0;
  }
  char prefix[PATH_MAX], package[PATH_MAX + sizeof "/python/site-packages/cannon/testing/__main__.py"];
  snprintf(package, sizeof package, "%s/python/site-packages/cannon/testing/__main__.py", environment_prefix(prefix));
  if (access(package, R_OK)) {
    fprintf(stderr, "cannon test: cannot read %s: %s\n", package, strerror(errno));
    return EXIT_FAILURE;
  }
  environment_apply(prefix);

  char **words = calloc((size_t)argc + TEST_WORDS, sizeof *words); /* argv[0] goes, NULL comes */
  if (!words) abort();
  memcpy(words, (char *[]){"python3", "-B", "-m", "cannon.testing"}, TEST_WORDS * sizeof *words);
  memcpy(words + TEST_WORDS, argv + 1, (size_t)(argc - 1) * sizeof *words);
  execvp(*words, words);
  fprintf(stderr, "cannon test: cannot start %s, which the tests are written in: %s\n", *words, strerror(errno));
  free(words);
  return EXIT_FAILURE;
}
