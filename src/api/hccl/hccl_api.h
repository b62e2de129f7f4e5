/* SPDX-License-Identifier: Apache-2.0 */
/* What HCCL's entry points have in common: how a failure becomes an HcclResult with words, checks of arguments, and
 * calls that wait for the end of a group. Helpers return an hccl_outcome, whose words are pending; HCCL_RETURN, at the
 * end of an entry point, publishes them under its name. Called by the files hccl_*.c of src/api only. Any thread. */
#ifndef CANNON_API_HCCL_HCCL_API_H
#define CANNON_API_HCCL_HCCL_API_H

#include "api/api.h"
#include "comm/collective.h"
#include "comm/communicator.h"
#include "hccl/hccl.h"

/* ---- outcomes ---- */

/* How a call ended: 0, or an HcclResult, and in the high half its number among CANN messages (EI0003: 3). */
typedef int hccl_outcome;

/* The outcome that stands for a status of the core. */
hccl_outcome hccl_outcome_of(status st);

/* Publishes a failure with its pending words under the name of the entry point. Returns the result. */
HcclResult hccl_publish(hccl_outcome outcome, const char *call);

#define HCCL_OUTCOME(code, number) ((int)(code) | (number) << 16)

/* Keeps the words and evaluates to the outcome of a wrong argument. */
#define HCCL_REFUSE(code, ...)                                                                                         \
  ({                                                                                                                   \
    fail_words(__VA_ARGS__);                                                                                           \
    HCCL_OUTCOME(code, 3);                                                                                             \
  })

#define HCCL_TRY(expression)                                                                                           \
  do {                                                                                                                 \
    const hccl_outcome hccl_try_ = (expression);                                                                       \
    if (unlikely(hccl_try_ != 0)) return hccl_try_;                                                                    \
  } while (0)
#define HCCL_TRY_CORE(expression) HCCL_TRY(hccl_outcome_of(expression))

/* Returns from an entry point, which began with API_ENTER(). */
#define HCCL_RETURN(expression)                                                                                        \
  do {                                                                                                                 \
    const hccl_outcome hccl_return_ = (expression);                                                                    \
    return likely(hccl_return_ == 0) ? HCCL_SUCCESS : hccl_publish(hccl_return_, api_call_.name);                      \
  } while (0)

/* ---- checks ---- */

/* HCCL_E_PTR unless the pointer is there. */
#define HCCL_NEED(pointer)                                                                                             \
  do {                                                                                                                 \
    if (unlikely(!(pointer))) return HCCL_REFUSE(HCCL_E_PTR, #pointer " is NULL, expected a pointer");                 \
  } while (0)

/* Families of products, by the name of the devices' profile. */
typedef enum { HCCL_910A = 1, HCCL_310P = 2, HCCL_A2 = 4, HCCL_A3 = 8, HCCL_950 = 16 } hccl_product;
enum { HCCL_FROM_A2 = HCCL_A2 | HCCL_A3 | HCCL_950, HCCL_ALL_PRODUCTS = HCCL_FROM_A2 | HCCL_910A | HCCL_310P };
hccl_product hccl_product_here(void);

/* HCCL_E_NOT_SUPPORT unless the devices are of one of these products. what: "Broadcast". */
hccl_outcome hccl_expect_product(const char *what, unsigned products);

/* The communicator of a handle, with a reference that the caller drops (HELD_COMM). */
hccl_outcome hccl_comm_of(HcclComm handle, comm **out);

/* ---- configurations (hccl_config.c) ---- */

/* Reads a configuration of any version; *out has what it sets. HCCL_E_PARA with words where it is damaged. */
hccl_outcome hccl_config_read(const HcclCommConfig *config, comm_config *out);

/* ---- groups (hccl_group.c) ---- */

typedef enum { HCCL_GROUP_MANAGEMENT, HCCL_GROUP_COLLECTIVE, HCCL_GROUP_P2P } hccl_group_kind;

/* Whether the calling thread is between HcclGroupStart and HcclGroupEnd. */
bool hccl_group_is_open(void);

/* Creates a communicator; called with what the entry point was given, by any thread. */
typedef struct hccl_creation hccl_creation;
struct hccl_creation {
  status (*create)(const hccl_creation *what, comm **out);
  HcclRootInfo info;
  char *table; /* path or text of a rank table; owned by the creation */
  bool table_is_text;
  uint32_t n_ranks, rank;
  comm_config config;
  HcclComm *out;
};

/* Leave a call to the end of the group; their arguments have been checked. Takes over call->table. An error makes the
 * whole group fail. */
hccl_outcome hccl_group_create(const hccl_creation *call);
hccl_outcome hccl_group_destroy(HcclComm handle);
hccl_outcome hccl_group_collective(const collective_call *call, HcclComm handle, uint32_t n_ranks, aclrtStream stream);
hccl_outcome hccl_group_transfer(const collective_transfer *transfer, HcclComm handle, void *site, aclrtStream stream);

/* A call in the open group was refused: the group fails as a whole. Returns the code. */
hccl_outcome hccl_group_refuse(hccl_outcome outcome);

/* Executes one call, in the group or without one. */
hccl_outcome hccl_create_now(const hccl_creation *call);
hccl_outcome hccl_destroy_now(HcclComm handle);

/* ---- memory (hccl_memory.c) ---- */

/* Forgets ranges and windows of a communicator that was destroyed. */
void hccl_memory_forget(HcclComm handle);

/* Calls what HcclCommRegCommStateCallback has registered (hccl_state.c). */
hccl_outcome hccl_state_tell(HcclComm handle, HcclCommStatePhase phase);

#endif
