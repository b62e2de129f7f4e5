/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of a model whose shapes are known: the intermediate representation between the readers of models
 * (graph/onnx) and programs (program.h).
 *
 *   storage   a piece of memory: an input or an output of the model, a constant, or temporary
 *   value     a tensor in a storage. A view (a transpose, a slice) is another value in the same storage, and costs no
 *             task
 *   node      a call of one of Cannon's operators (ops/ *.ops), with values in place of tensors
 *
 * Nodes are in the order in which they will run. A node whose inputs are all constants is computed when it is added
 * (fold.c), so shapes that a model computes, and weights that it prepares, are constants before anybody looks at them.
 *
 * A graph owns everything in it, in one region, except the contents of constants that were lent to it. One thread at a
 * time uses a graph. */
#ifndef CANNON_GRAPH_IR_H
#define CANNON_GRAPH_IR_H

#include "base/store/region.h"
#include "op/op.h"

typedef enum { STORAGE_TEMPORARY, STORAGE_INPUT, STORAGE_OUTPUT, STORAGE_CONSTANT } storage_kind;

typedef struct {
  storage_kind kind;
  uint32_t index;       /* of an input or output */
  uint64_t bytes;       /* at least 1 */
  const void *contents; /* of a constant: in host memory; lent contents may be unaligned; NULL: there is a recipe */
  /* The next three describe constants. identity: a hash of what the constant was made of, so that equal ones have equal
   * contents in all graphs of one model; 0: it has none. recipe: how it is computed once somebody needs it (fold.c).
   * n_recipes: how many other recipes read it. */
  uint64_t identity;
  const struct ir_recipe *recipe;
  int n_recipes;
  bool computed_for_another; /* for fold.c */
  bool lent;                 /* contents belong to the caller */
  bool wanted;               /* for ir_drop_unused and passes */
  const void *copy_of;       /* for fold.c */
  int id;                    /* for uses.h */
  /* For programs: whether it is used, the first and the last step that does, its offset in the arena, and for constants
   * the address at which kernels find it, which program_owner.place sets, if a step reads it other than packed. */
  bool used, read_as_is, stays; /* stays: a step reads it where it is in host memory, unless another reads it as is */
  int first, last, filled_by;   /* filled_by: the last step that reads it packed */
  uint64_t offset;
  void *address;
} ir_storage;

typedef struct {
  tensor tensor; /* data is NULL: where the storage is, programs know */
  ir_storage *storage;
  const char *name; /* that of the model; NULL: the model has no such value */
  int narrow;       /* for readers of models: the type that the elements stand for; views and copies keep it. 0: none */
} ir_value;

typedef struct {
  op *op;
  op_arg *args;       /* as the operator's schema has them; tensors are those of values */
  const char *name;   /* of the model's node; "" if it has none */
  const char *label;  /* for messages: its name, or which node it is */
  const char *origin; /* the model's operator */
} ir_node;

/* Memory of a constant. Large ones are mapped, so that their pages go back to the host at once when they are freed. */
typedef struct {
  void *at;
  uint64_t bytes;
  bool stays;
  ir_storage *of;
} ir_owned;

/* Whether float32 may be computed and stored in float16, in bfloat16, or in either of them (pass_half.c). */
typedef enum { HALF_NEVER, HALF_ALLOWED, HALF_WANTED, HALF_BFLOAT16_ALLOWED, HALF_ANY_ALLOWED, N_HALF_USES } half_use;

/* A value that the model's DequantizeLinear gives of integers, for pass_qdq.c: (quantised - zero) * scale, with one
 * number, or one for each index of the axis. zero: NULL for none. */
typedef struct {
  const ir_value *real;
  ir_value *quantised, *scale, *zero;
  int axis;
} ir_dequantised;

typedef struct {
  region memory;
  ir_dequantised *dequantised; /* n_dequantised, by the converter */
  int n_dequantised;
  half_use half;
  int half_dtype; /* that the pass has chosen: ACL_FLOAT16 or ACL_BF16; 0: none */
  int n_nodes, n_inputs, n_outputs;
  ir_node *nodes;
  ir_value **inputs, **outputs;
  ir_owned *owned; /* contents of constants that were computed */
  int n_owned;
  ir_owned spare; /* memory of contents that were freed, for the next ones; at NULL: there is none */
  bool folds_all; /* nodes that are added now are computed whatever their size: shapes depend on them */
  const char
      *kept_whole; /* nodes that stay float32, with tabs between: names, or "OpType::" and an operator; or NULL */
  /* Told when lent contents were read and probably will not be soon; or NULL. */
  void (*forget)(const void *lender, const void *contents, uint64_t bytes);
  const void *lender;
  const char *name, *label, *origin; /* of the model's node that is being added */
} ir_graph;

/* Returns an empty graph, or NULL with a message. ir_free takes NULL, too. */
ir_graph *ir_new(void);
void ir_free(ir_graph *g);

/* Frees the contents of constants that the graph owns: of all but those that ir_keep_contents() has named, once nobody
 * reads them any more; of one, which has equal contents elsewhere from then on (NULL: nowhere, unless a recipe has to
 * read them, for which they stay). */
void ir_drop_contents(ir_graph *g);
void ir_keep_contents(ir_graph *g, const ir_storage *s);
void ir_move_contents(ir_graph *g, ir_storage *s, const void *to);

/* Zeroed memory for contents. Large pieces are mappings, which go back to the host at once when they are freed. */
enum { IR_MAPPED_BYTES = 1 << 17 /* malloc's first threshold, which rises with what is freed */ };
void *ir_memory_new(uint64_t bytes);
void ir_memory_free(void *at, uint64_t bytes);

/* Frees the contents of constants that no node and no output reads. */
void ir_drop_unused(ir_graph *g);

/* ---- values. All return ST_OP_INVALID or ST_NO_HOST_MEMORY on failure; the values are the graph's ---------------- */

/* A contiguous value with a temporary storage of its own. */
status ir_temporary(ir_graph *g, int dtype, const int64_t *dims, int rank, ir_value **out);

/* A contiguous value in the storage of a new input; appended to g->inputs. */
status ir_input(ir_graph *g, const char *name, int dtype, const int64_t *dims, int rank, ir_value **out);

/* A contiguous constant. contents: lent, must stay as long as the graph and its programs; NULL: memory that the graph
 * owns, zeroed, which the caller fills by ir_fill before the constant is used. */
status ir_constant(ir_graph *g, int dtype, const int64_t *dims, int rank, const void *contents, ir_value **out);
void *ir_fill(ir_value *v);

/* A constant of one dimension with these integers, or of rank 0 with one value, converted to the dtype. */
status ir_integers(ir_graph *g, const int64_t *integers, int n, ir_value **out);
status ir_number(ir_graph *g, int dtype, double number, ir_value **out);

/* Another value in the same storage. strides and offset (relative to the value's) are in elements. */
status ir_view(ir_graph *g, const ir_value *of, const int64_t *dims, const int64_t *strides, int rank, int64_t offset,
               ir_value **out);

/* The value with other dims and as many elements: a view if it is contiguous, otherwise a contiguous copy. */
status ir_reshaped(ir_graph *g, ir_value *v, const int64_t *dims, int rank, ir_value **out);

/* A view with dimension order[d] as dimension d; one that is expanded to dims, by the rules of broadcasting. */
status ir_permuted(ir_graph *g, const ir_value *v, const int *order, ir_value **out);
status ir_expanded(ir_graph *g, const ir_value *v, const int64_t *dims, int rank, ir_value **out);

/* The value itself if it is contiguous, otherwise a copy that is. */
status ir_contiguous(ir_graph *g, ir_value *v, ir_value **out);

/* The value converted to another dtype; the value itself if it has that. */
status ir_cast(ir_graph *g, ir_value *v, int dtype, ir_value **out);

static inline bool value_is_constant(const ir_value *v) { return v->storage->kind == STORAGE_CONSTANT; }

/* Computes a constant that has not been yet. Failures of the operator, with the name of the model's node. Integers,
 * and what has few elements, need no call: they are computed when the graph is made. */
status ir_need_contents(ir_storage *s);

/* The same for one that has a recipe and no contents, into memory of the caller's, which must stay as long as the
 * contents are needed. */
status ir_compute_at(ir_storage *s, void *at);

/* The first element of a constant in host memory, which has contents. */
static inline const void *value_contents(const ir_value *v) {
  return (const char *)v->storage->contents + v->tensor.offset * (int64_t)dtype_bytes(v->tensor.dtype);
}

/* Reads a constant's elements in row-major order, converted; the constant is real, and has contents. */
void value_read_integers(const ir_value *v, int64_t *to);
void value_read_reals(const ir_value *v, double *to);

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* Adds a call of an operator, or computes it if it reads constants only. Called by the functions of graph/nodes.h,
 * which are generated from the schemas. A NULL tensor is absent. The result of an operator whose shape depends on its
 * data has its true shape if it was computed. */
status ir_add(ir_graph *g, op *o, const op_arg *args);

/* Arguments, in the graph's memory; NULL, with a message, if the host has none. */
const scalar *ir_scalar(ir_graph *g, int dtype, double number);
const aclIntArray *ir_int_array(ir_graph *g, const int64_t *integers, int n);
const aclTensorList *ir_list(ir_graph *g, ir_value *const *values, int n);

static inline const tensor *value_tensor(const ir_value *v) { return v ? &v->tensor : NULL; }

/* The value that a tensor of a node's arguments is. */
static inline ir_value *value_of(const tensor *t) { return (ir_value *)(void *)t; }

/* Calls visit() for each tensor of a call; flags: ARG_READ, ARG_WRITTEN. */
typedef void node_visitor(void *argument, ir_value *v, unsigned flags);
void node_visit_args(const op *o, const op_arg *args, node_visitor *visit, void *argument);
static inline void node_visit(const ir_node *n, node_visitor *visit, void *argument) {
  node_visit_args(n->op, n->args, visit, argument);
}

/* Whether an operator can be called so: its first phase says. */
bool call_is_possible(op *o, const op_arg *args);

/* For fold.c: whether a call only reads constants, of which there is one at least, and writes temporaries; whether that
 * should be computed, by its size; and makes what it writes constant: computed on the host now, or by a recipe. */
bool fold_is_possible(const op *o, const op_arg *args);
bool fold_is_wanted(const op *o, const op_arg *args);
status fold_call(ir_graph *g, op *o, const op_arg *args);

/* Makes a storage a constant with contents of its own, zeroed. */
status ir_own_contents(ir_graph *g, ir_storage *s);

#endif
