/* SPDX-License-Identifier: Apache-2.0 */
/** \file
 * Models: .om files are made of ONNX models without the tool atc. In libcannon.so.
 *
 * All functions may be called from any thread at any time, without a device. They return ACL_SUCCESS (0) or an error
 * code of acl_rt.h, and an error leaves a message for aclGetRecentErrMsg().
 */
#ifndef CANNON_MODEL_H
#define CANNON_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_op.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** The shape of an input. */
typedef struct {
  const char *name; /**< The input's name in the model. */
  size_t n_dims;    /**< Number of its dimensions: at most 8. */
  int64_t dims[8];  /**< Its dimensions; -1: it stays open. */
  int64_t least[8]; /**< Of an open dimension: the least size that an execution may have; 0: any. */
  int64_t most[8];  /**< Likewise the most; 0 or -1: any. */
} cannon_model_shape;

/** What callers give for an input. */
typedef struct {
  const char *name; /**< The input's name in the model. */
  int half;         /**< Not 0: float16, where the model has float32. */
  int blocked;      /**< Not 0: NC1HWC0 in blocks of 16 channels, where the model has NCHW. */
} cannon_model_input;

/** Which sizes of the open dimensions a model is made for. */
typedef enum {
  CANNON_MODEL_NO_GEARS = 0,
  CANNON_MODEL_BATCH, /**< A number: the first dimension of inputs that are open there. */
  CANNON_MODEL_IMAGE, /**< Two numbers: the two open dimensions of each input that has some. */
  CANNON_MODEL_DIMS,  /**< A number for each open dimension, in order. */
} cannon_model_gears;

/** Where the constants of a model are kept. */
typedef enum {
  CANNON_MODEL_WEIGHTS_INSIDE = 0, /**< In the .om file. */
  CANNON_MODEL_WEIGHTS_EACH,       /**< In a file for each of 1 KiB or more, whose name is a hash of the contents. */
  CANNON_MODEL_WEIGHTS_COMBINED,   /**< In one file, NAME_weight_combined. */
} cannon_model_weights;

/** Whether float32 may be computed and stored in 16 bits. Inputs and outputs keep their types, and sums of products are
 * in float32 in either case. */
typedef enum {
  CANNON_MODEL_FLOAT32 = 0,     /**< No. */
  CANNON_MODEL_MAY_BE_HALF,     /**< In float16, where estimates say that the model becomes faster. */
  CANNON_MODEL_HALF,            /**< Wherever operators know float16. */
  CANNON_MODEL_MAY_BE_BFLOAT16, /**< In bfloat16, where estimates say that the model becomes faster. */
  CANNON_MODEL_MAY_BE_16_BITS,  /**< In the faster of the two, likewise. */
} cannon_model_precision;

/** What a model is made for, where there is a choice (docs/graph.md). */
typedef enum {
  CANNON_MODEL_ANY = 0,
  CANNON_MODEL_TIME,   /**< Time; at present as without a goal. */
  CANNON_MODEL_MEMORY, /**< The least memory for values and constants. */
  CANNON_MODEL_POWER,  /**< The least product of operations and bytes moved. */
} cannon_model_goal;

/** The type of an output. */
typedef struct {
  const char *name; /**< The output's name, or "node:index"; "": all outputs. */
  aclDataType type; /**< What it is converted to at the end of the model. */
} cannon_model_type;

/** Whether a pass runs (docs/graph.md). */
typedef struct {
  const char *name; /**< The pass's name; ALL: all passes. Unknown names switch nothing. */
  int on;           /**< 0: it does not run. */
} cannon_model_switch;

/** How a model is made. Zero-initialised options leave everything to the model. */
typedef struct {
  const char *name;                    /**< The model's name in the header, of which 31 characters are kept. */
  const cannon_model_shape *shapes;    /**< Shapes of inputs; those of others are as the model declares, or open. */
  size_t n_shapes;                     /**< Number of shapes. */
  cannon_model_gears gears;            /**< What the numbers of gears are. */
  size_t n_gears;                      /**< Number of gears: at most 100. */
  size_t n_numbers;                    /**< Numbers in a gear. */
  const int64_t *numbers;              /**< The gears' numbers, one gear after the other. */
  const char *const *outputs;          /**< Outputs in place of the model's: names of values, or "node:index". */
  size_t n_outputs;                    /**< Number of outputs; 0: those of the model. */
  const cannon_model_type *types;      /**< Types of outputs. */
  size_t n_types;                      /**< Number of types. */
  const char *const *blocked;          /**< Outputs of 4 dimensions that are NC1HWC0, as float16; named as `outputs`. */
  size_t n_blocked;                    /**< Their number. */
  const cannon_model_input *inputs;    /**< Inputs that callers give in another form than the model has. */
  size_t n_inputs;                     /**< Number of these inputs. */
  const cannon_model_switch *switches; /**< Passes that run or do not; a later one wins. */
  size_t n_switches;                   /**< Number of switches. */
  cannon_model_precision precision;    /**< Whether float32 may be less. */
  const char *const *whole;            /**< Nodes that stay float32 then: names, or such as "OpType::Softmax". */
  size_t n_whole;                      /**< Their number. */
  cannon_model_weights weights;        /**< Where constants are kept. */
  const char *weight_folder;           /**< The folder of files of constants: `weight` beside the .om file. It is made
                                            if it is not there. */
  const char *command_line;            /**< For those who look into the file; may be NULL. */
  const char *soc_version;             /**< Likewise. */
  const char *aipp;                    /**< A configuration of AIPP, as atc's --insert_op_conf has it; NULL: none. */
  cannon_model_goal goal;              /**< What it is made for. */
  int tune;                            /**< Not 0: implementations of operators are measured here, each on the shapes
                                            it has in the model, and the fastest are kept for this processor. */
} cannon_model_options;

/** What a pass did. */
typedef struct {
  const char *name; /**< Its name, which stays valid. */
  int n_matches;    /**< How often it changed the model; 0, too, if shapes are open. */
} cannon_model_pass;

/** What became of a model. */
typedef struct {
  size_t work_bytes;     /**< Memory for values between operators, where buffers share it; 0 if shapes are open. */
  size_t unshared_bytes; /**< The same if no two buffers shared memory. */
  size_t weight_bytes;   /**< Memory for constants. */
  int n_tasks;           /**< Operators that run for an execution. */
  size_t n_passes;       /**< Number of passes. */
  cannon_model_pass passes[64]; /**< All passes, in their order. */
} cannon_model_figures;

/** Makes the contents of an .om file of an ONNX model.
 *
 * \param path     The ONNX file.
 * \param options  How it is made; may be NULL.
 * \param om       Receives the contents, which the caller frees with free().
 * \param bytes    Receives their number.
 * \param figures  Receives what the model needs; may be NULL.
 * \return ACL_SUCCESS; ACL_ERROR_INVALID_PARAM for a shape that does not fit; 145002 for a file that cannot be read, or
 *     a file of constants that cannot be written;
 *     ACL_ERROR_PARSE_FILE for one that is no ONNX model; 500002 for a node that cannot be run.
 */
aclError cannon_model_build(const char *path, const cannon_model_options *options, void **om, size_t *bytes,
                            cannon_model_figures *figures);

/** As cannon_model_build(), of an ONNX model in memory, which must have no external data.
 *
 * \param onnx  The contents of the file, which may be freed afterwards.
 * \param n     Their number of bytes.
 */
aclError cannon_model_build_from_memory(const void *onnx, size_t n, const cannon_model_options *options, void **om,
                                        size_t *bytes, cannon_model_figures *figures);

/** Writes the contents of an .om file.
 *
 * A file of that name is replaced only if it is empty, or begins as an .om file does; symbolic links are not followed.
 * The name gets the new file when that is complete.
 *
 * \param path   The file to write.
 * \param om     The contents.
 * \param bytes  Their number.
 * \return ACL_SUCCESS; 145002 for a file that cannot be written, or is not replaced.
 */
aclError cannon_model_save(const char *path, const void *om, size_t bytes);

/** Makes the contents of an .om file of a single operator, for aclopLoad() and aclopSetModelDir(). Operators run by
 * their names, so programs that do not load the file run them, too. Whether the operator takes these tensors is checked
 * where their shapes are known.
 *
 * \param type        The operator's name, such as "Add".
 * \param n_inputs    Number of inputs.
 * \param inputs      Their descriptions.
 * \param n_outputs   Number of outputs.
 * \param outputs     Their descriptions.
 * \param attributes  Attributes; may be NULL.
 * \param text        A description for those who look into the file.
 * \param om          Receives the contents, which the caller frees with free().
 * \param bytes       Receives their number.
 * \return ACL_SUCCESS; ACL_ERROR_OP_NOT_FOUND for an operator that is not there, or does not take these tensors.
 */
aclError cannon_operator_build(const char *type, int n_inputs, const aclTensorDesc *const inputs[], int n_outputs,
                               const aclTensorDesc *const outputs[], const aclopAttr *attributes, const char *text,
                               void **om, size_t *bytes);

/** Describes what becomes of a model, as JSON: its inputs and outputs, the passes and how often they matched, the nodes
 * before and after them with the implementation of each and the reason for it, and the plan of memory. docs/graph.md
 * lists the members. `memory` has three figures for values between operators: no_reuse (no two buffers share memory),
 * reuse (they do), reuse_and_passes (they do, in the graph after passes). The model is not run.
 *
 * \param path     An ONNX file or an .om file.
 * \param options  Shapes for inputs that the model leaves open, the goal, and `tune`, the only part that runs
 *     operators; the rest is not looked at. May be NULL.
 * \param json     Receives the text, which the caller frees with free().
 * \return ACL_SUCCESS; as cannon_model_build otherwise. ACL_ERROR_INVALID_PARAM, too, for a shape that stays open.
 */
aclError cannon_model_describe(const char *path, const cannon_model_options *options, char **json);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
