/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/standard_output.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int standard_output_end(const char *tool, int status) {
  const bool failed_before = ferror(stdout); /* its errno is lost, but a flush usually fails for the same reason */
  const int error = fflush(stdout) ? errno : 0;
  if (!error && !failed_before) return status;
  fprintf(stderr, "%s: cannot write to the standard output: %s\n", tool,
          error ? strerror(error) : "some of it is lost");
  return status ? status : 1;
}
