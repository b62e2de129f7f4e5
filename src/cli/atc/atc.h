/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of atc share: atc.c reads the arguments, atc_model.c makes .om files, atc_om.c looks into them. */
#ifndef CANNON_CLI_ATC_ATC_H
#define CANNON_CLI_ATC_ATC_H

#include <stdbool.h>
#include <stddef.h>

#include "cannon/model.h"

enum { EXIT_ARGUMENTS = 255 };

/* Options with an effect; their values, or NULL. */
typedef struct {
  const char *mode, *model, *framework, *output, *soc_version, *input_shape, *log, *display, *om, *json;
  const char *batch, *image, *dims; /* gears */
  const char *out_nodes, *output_type, *switch_file, *switches, *level, *statistics;
  const char *precision, *precision_v2, *check_report, *weights;
  const char *aipp; /* the name of a file */
  const char *tune, *goal;
  const char *shape_range, *half_inputs, *input_layout, *output_layout;
  const char *keep_dtype, *mix_list, *own_dtypes; /* names of files */
  const char *single_operators;                   /* likewise */
} atc_options;

/* Whether a name of --soc_version is one that CANN documents, or a device's here. */
bool atc_is_soc(const char *name);

/* Checks the files of options that only tell the compiler of an NPU something. Returns 0 or the exit code. */
typedef enum { ATC_NO_FILE, ATC_JSON, ATC_LINES, ATC_SETTINGS, ATC_SWITCHES_FILE } atc_file_kind;
int atc_check_file(const char *option, const char *path, atc_file_kind kind);

/* Reads the nodes and operators that --keep_dtype, --modify_mixlist and --customize_dtypes keep in float32 into a list
 * of names, which the caller frees with *text. Returns 0 or the exit code. */
enum { ATC_KEPT = 1024 };
int atc_read_kept(const atc_options *o, const char **names, size_t *n, char **text);

/* Makes an .om file of each operator in --singleop's file, in the folder --output. Returns the exit code. */
int atc_make_operators(const atc_options *o);

/* Prints the last line of a failure and its message. Returns the exit code. */
__attribute__((format(printf, 2, 3))) int atc_refuse(int code, const char *format, ...);
/* Prints a line for the user, whose foreign parts are made safe, as those of atc_refuse are. */
__attribute__((format(printf, 1, 2))) void atc_warn(const char *format, ...);

/* The exit code of a failure of the library, after its message. */
int atc_refuse_error(aclError error);

/* Modes 0 and 3. command_line: all arguments. Return the exit code. */
int atc_make_model(const atc_options *o, const char *command_line);
int atc_check_model(const atc_options *o);

/* Modes 1 and 6, for files of anybody's atc. Return the exit code. */
int atc_write_json(const atc_options *o);
int atc_display(const char *path);

/* Prints `Display Model Info` of an .om file's bytes. Returns what is wrong with them, or NULL. */
const char *atc_print_info(const void *om, size_t bytes);

/* Reads --fusion_switch_file and --optimization_switch into switches, of which there is room for ATC_SWITCHES. Names
 * are in *text, which the caller frees. Returns 0 or the exit code. */
enum { ATC_SWITCHES = 256 };
int atc_read_switches(const atc_options *o, cannon_model_switch *switches, size_t *n, char **text);

#endif
