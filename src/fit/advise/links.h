/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the links of a model: the modules that are recomputed or moved as a whole. Called by advise_model_new. */
#ifndef CANNON_FIT_ADVISE_LINKS_H
#define CANNON_FIT_ADVISE_LINKS_H

#include "fit/advise/model.h"

/* False: there is no memory. */
bool advise_links_make(advise_model *m);

#endif
