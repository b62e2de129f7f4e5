/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/check/lines.h"
#include "base/text.h"
#include "cli/report/stats_read.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *lines_base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Returns the session with libdw; NULL if it cannot be created. */
static Dwfl *session(void) {
  static char *debug_path = NULL; /* NULL: libdw's default path */
  static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_build_id_find_elf,
                                           .find_debuginfo = dwfl_standard_find_debuginfo,
                                           .section_address = dwfl_offline_section_address,
                                           .debuginfo_path = &debug_path};
  static Dwfl *dwfl;
  if (!dwfl) {
    unsetenv("DEBUGINFOD_URLS"); /* reports must not wait for the network */
    dwfl = dwfl_begin(&callbacks);
  }
  return dwfl;
}

static Dwfl_Module *module_of(const char *path) {
  static struct {
    char *path;
    Dwfl_Module *module;
  } known[STATS_MAX_MODULES];
  static unsigned n;
  unsigned i = 0;
  while (i < n && strcmp(known[i].path, path) != 0) i++;
  if (i < n) return known[i].module;
  Dwfl *dwfl = session();
  if (!dwfl || n == STATS_MAX_MODULES) return NULL;
  dwfl_report_begin_add(dwfl);
  known[n].module = dwfl_report_offline(dwfl, path, path, -1);
  dwfl_report_end(dwfl, NULL, NULL);
  known[n].path = strdup(path);
  if (!known[n].path) abort();
  return known[n++].module;
}

/* Returns the demangled form of a C++ name if the machine has libstdc++, which C++ programs bring with them; this
 * tool does not link it. Valid until the next call. */
static const char *readable_name(const char *name) {
  enum { LONGEST = 1024 }; /* names of instantiated templates may have many kilobytes */
  static char text[LONGEST];
  static char *(*demangle)(const char *, char *, size_t *, int *);
  static bool asked;
  if (!name || strncmp(name, "_Z", 2) != 0) return name;
  if (!asked) {
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    if (library) demangle = (char *(*)(const char *, char *, size_t *, int *))dlsym(library, "__cxa_demangle");
    asked = true;
  }
  char *readable = demangle ? demangle(name, NULL, NULL, &(int){0}) : NULL;
  if (!readable) return name;
  snprintf(text, sizeof text, "%s", readable);
  free(readable);
  return text;
}

source_line lines_find(const char *path, uint64_t offset) {
  source_line found = {0};
  GElf_Addr bias;
  GElf_Sym symbol;
  Dwfl_Module *module = module_of(path);
  if (!module || !dwfl_module_getelf(module, &bias)) return found;
  const GElf_Addr call = offset + bias - 1; /* an address inside the call instruction */
  Dwfl_Line *line = dwfl_module_getsrc(module, call);
  if (line) found.file = dwfl_lineinfo(line, NULL, &found.line, NULL, NULL, NULL);
  found.function = readable_name(dwfl_module_addrinfo(module, call, &found.into, &symbol, NULL, NULL, NULL));
  found.into++;
  return found;
}

/* A function's name as the linker has it, or as the source has it; functions of C have the latter only. */
static const char *die_name(Dwarf_Die *die) {
  Dwarf_Attribute name;
  const char *linked =
      dwarf_attr_integrate(die, DW_AT_linkage_name, &name) ? readable_name(dwarf_formstring(&name)) : NULL;
  return linked ? linked : dwarf_diename(die);
}

/* The line from which an inlined function is called. */
static void die_call(Dwarf_Die *unit, Dwarf_Die *die, source_frame *at) {
  Dwarf_Attribute attribute;
  Dwarf_Word line = 0, number = 0;
  Dwarf_Files *files;
  at->file = NULL;
  if (!dwarf_attr(die, DW_AT_call_line, &attribute) || dwarf_formudata(&attribute, &line)) return;
  if (!dwarf_attr(die, DW_AT_call_file, &attribute) || dwarf_formudata(&attribute, &number)) return;
  if (dwarf_getsrcfiles(unit, &files, NULL)) return;
  at->file = dwarf_filesrc(files, number, NULL, NULL);
  at->line = (int)line;
}

/* Tells the functions around the innermost block; *at has its line. Returns whether any is known. */
static bool walk_inlined(Dwarf_Die *unit, GElf_Addr address, source_frame *at,
                         void (*tell)(const source_frame *frame, void *argument), void *argument) {
  Dwarf_Die *lexical = NULL, *scopes = NULL;
  bool told = false;
  /* These are the blocks of the source around an inlined function, of which the first is where the code is. */
  if (dwarf_getscopes(unit, address, &lexical) <= 0) return false;
  const int n = dwarf_getscopes_die(&lexical[0], &scopes);
  for (int i = 0; i < n; i++) {
    const int tag = dwarf_tag(&scopes[i]);
    if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram) continue;
    at->function = die_name(&scopes[i]);
    tell(at, argument);
    told = true;
    if (tag == DW_TAG_subprogram) break;
    die_call(unit, &scopes[i], at);
  }
  free(scopes);
  free(lexical);
  return told;
}

void lines_walk(const char *path, uint64_t offset, void (*tell)(const source_frame *frame, void *argument),
                void *argument) {
  const source_line found = lines_find(path, offset);
  source_frame at = {found.function, found.file, found.line};
  Dwfl_Module *module = module_of(path);
  GElf_Addr bias = 0, debug_bias = 0;
  const bool is_open = module && dwfl_module_getelf(module, &bias);
  const GElf_Addr call = offset + bias - 1;
  Dwarf_Die *unit = is_open ? dwfl_module_addrdie(module, call, &debug_bias) : NULL;
  if (unit && walk_inlined(unit, call - debug_bias, &at, tell, argument)) return;
  tell(&at, argument);
}

void lines_describe(const stats_file *p, stats_place place, char *text, size_t bytes) {
  const char *path = stats_module_path(p, place);
  *text = '?';
  text[1] = '\0';
  if (!path) return;
  const source_line found = lines_find(path, place.offset);
  if (found.file && found.function)
    snprintf(text, bytes, "%s:%d (%s)", lines_base_name(found.file), found.line, found.function);
  else if (found.file)
    snprintf(text, bytes, "%s:%d", lines_base_name(found.file), found.line);
  else if (found.function)
    snprintf(text, bytes, "%s(%s+%#" PRIx64 ")", lines_base_name(path), found.function, found.into);
  else
    snprintf(text, bytes, "%s+%#" PRIx64, lines_base_name(path), place.offset);
  text_make_safe(text, bytes);
}

/* Writes "from object+0x1234 [path+0x1234]" with what is known of the place: the function in place of the object's
 * offset, since the process itself knows neither static functions nor C++ names, and the source line in place of the
 * brackets. */
static void write_place(FILE *to, const char *line, const char *path, const char *rest, uint64_t offset) {
  const source_line found = lines_find(path, offset);
  const char *from = strstr(line, "from ");
  if (found.function && from)
    fprintf(to, "%.*s%s(%s+%#" PRIx64 ") ", (int)(from + 5 - line), line, lines_base_name(path), found.function,
            found.into);
  else
    fputs(line, to);
  if (found.file)
    fprintf(to, "%s:%d%s", found.file, found.line, rest);
  else
    fprintf(to, "[%s+%#" PRIx64 "]%s", path, offset, rest);
}

/* Copies a line of the report, with the place in its brackets described, if there is one. */
static void copy_line(char *line, FILE *to) {
  char *open = strrchr(line, '['), *close = open ? strrchr(open, ']') : NULL, *plus = NULL;
  if (close) {
    *close = 0;
    plus = strrchr(open, '+');
    *close = ']';
  }
  char *end;
  const uint64_t offset = plus ? strtoull(plus + 1, &end, 16) : 0;
  if (!plus || end != close) {
    fputs(line, to);
    return;
  }
  *open = *plus = 0;
  write_place(to, line, open + 1, close + 1, offset);
}

void lines_copy_report(FILE *from, FILE *to) {
  char *line = NULL;
  size_t room = 0;
  while (getline(&line, &room, from) >= 0) copy_line(line, to);
  free(line);
}
