#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool size_parse(const char *text, uint64_t *bytes) {
  if (!isdigit((unsigned char)*text)) return false; /* strtoull takes signs and blanks */
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (errno) return false;
  int shift = 0;
  if (*end) {
    static const char suffixes[] = "KMGT";
    const char *suffix = strchr(suffixes, toupper((unsigned char)*end));
    if (!suffix || end[1]) return false;
    shift = 10 * (int)(suffix - suffixes + 1);
  }
  if (number == 0 || number > (uint64_t)INT64_MAX >> shift) return false;
  *bytes = (uint64_t)number << shift;
  return true;
}
