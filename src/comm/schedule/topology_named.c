/* SPDX-License-Identifier: Apache-2.0 */
/* The topologies of devices/topologies, as texts in the library. */
#include <string.h>

#include "comm/schedule/topology.h"

/* The file's text, embedded from the source folder. */
#define TOPOLOGY_FILE(label, name)                                                                                     \
  __asm__(".pushsection .rodata\n" label ": .incbin \"" TOPOLOGIES "/" name ".json\"\n.byte 0\n.popsection\n")
TOPOLOGY_FILE("topology_a2", "a2-cluster");
TOPOLOGY_FILE("topology_a3", "cloudmatrix384");
TOPOLOGY_FILE("topology_wire", "ethernet");
extern INTERNAL const char topology_a2[], topology_a3[], topology_wire[];

static const struct {
  const char *name, *text;
} known[] = {{"a2-cluster", topology_a2}, {"cloudmatrix384", topology_a3}, {"ethernet", topology_wire}};

status topology_named(const char *name, topology *out) {
  if (strchr(name, '/') || strstr(name, ".json")) return topology_read(name, out);
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (strcmp(known[i].name, name) == 0) return topology_parse(known[i].text, out);
  return fail(ST_INVALID_VALUE, "there is no topology '%s', expected a2-cluster, cloudmatrix384, ethernet, or a file",
              name);
}

/* What a server of these devices has between them. For Ascend910A's two rings of HCCS there is no file: the full mesh
 * is faster, so times stay lower bounds. */
const char *topology_of_device(const char *soc_name) {
  if (strncmp(soc_name, "Ascend910_93", 12) == 0) return "cloudmatrix384";
  return strncmp(soc_name, "Ascend910", 9) == 0 ? "a2-cluster" : "ethernet";
}
