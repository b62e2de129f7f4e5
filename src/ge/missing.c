/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the graph engine that clients link but that are not built. Most return an object, of which none can be
 * made, so a call ends the program, after a message that names the function. */
#include <stdio.h>
#include <stdlib.h>

char *__cxa_demangle(const char *symbol, char *buffer, size_t *length, int *status); /* of the C++ library */

__attribute__((noreturn, cold)) static void ge_missing(const char *symbol) {
  int status;
  char *name = __cxa_demangle(symbol, NULL, NULL, &status);
  fprintf(stderr,
          "cannon: %s is not implemented: the graph engine's C++ interface runs no graphs here.\n"
          "cannon: with MindSpore, use PyNative mode, or jit with backend=\"ms_backend\" and jit_level=\"O0\".\n",
          name ? name : symbol);
  abort();
}

#define MISSING(symbol)                                                                                                \
  void symbol(void);                                                                                                   \
  __attribute__((visibility("default"))) void symbol(void) { ge_missing(#symbol); }
#include "ge/missing.def"
