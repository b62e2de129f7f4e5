/* SPDX-License-Identifier: Apache-2.0 */
/* Call sites and streams of a recording's blocks, for the page of `cannon replay`. */
#ifndef CANNON_CLI_REPLAY_REPLAY_SITES_H
#define CANNON_CLI_REPLAY_REPLAY_SITES_H

#include "cli/replay/replay_report.h"

/* Writes members of an object of JavaScript: `sites`, each with its `line` as `cannon memory` names it and its `stack`,
 * a text for each frame; `site`, an index of them for each block, or -1; and `streams`, a text for each block with the
 * numbers of those in whose order it was allocated or, if tasks were recorded, whose tasks use it. Writes nothing for
 * traces that are text. Reads the trace's file again; returns false, after a message, if that fails. */
bool replay_write_sites(FILE *f, const replay_report *r);

#endif
