/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/dry/profile.h"

#include <stddef.h>
#include <strings.h>

static const char *without_vendor(const char *name) { return strncasecmp(name, "Ascend", 6) == 0 ? name + 6 : name; }

const device_profile *profile_find(const char *soc_name) {
  if (!soc_name) return NULL;
  for (unsigned i = 0; i < profile_table_count; i++)
    if (strcasecmp(without_vendor(soc_name), without_vendor(profile_table[i].soc_name)) == 0) return &profile_table[i];
  return NULL;
}

unsigned profile_count(void) { return profile_table_count; }

const device_profile *profile_at(unsigned i) { return i < profile_table_count ? &profile_table[i] : NULL; }
