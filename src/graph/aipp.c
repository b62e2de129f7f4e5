/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/aipp.h"
#include "tensor/dtype.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- configurations ---------------------------------------------------------------------------------------------- */

void aipp_defaults(aipp_common *c, aipp_picture *p) {
  if (c) *c = (aipp_common){.matrix = {256, 0, 0, 0, 256, 0, 0, 0, 256}};
  if (p) *p = (aipp_picture){.reciprocal = {1, 1, 1, 1}};
}

typedef enum { KEY_SWITCH, KEY_INTEGER, KEY_REAL, KEY_LARGE } key_kind;

typedef struct {
  const char *name;
  key_kind kind;
  size_t offset; /* in aipp_config */
} aipp_key;

#define COMMON(name, kind, member)                                                                                     \
  { name, kind, offsetof(aipp_config, common.member) }
#define PICTURE(name, kind, member)                                                                                    \
  { name, kind, offsetof(aipp_config, picture.member) }
/* Keys with an index at their end, such as mean_chn_0. */
#define CHANNELS(name, kind, member)                                                                                   \
  PICTURE(name "0", kind, member[0]), PICTURE(name "1", kind, member[1]), PICTURE(name "2", kind, member[2]),          \
      PICTURE(name "3", kind, member[3])
#define THREE(name, member)                                                                                            \
  COMMON(name "0", KEY_INTEGER, member[0]), COMMON(name "1", KEY_INTEGER, member[1]),                                  \
      COMMON(name "2", KEY_INTEGER, member[2])

static const aipp_key aipp_keys[] = {
    {"related_input_rank", KEY_INTEGER, offsetof(aipp_config, input)},
    {"max_src_image_size", KEY_LARGE, offsetof(aipp_config, most_bytes)},
    COMMON("src_image_size_w", KEY_INTEGER, width),
    COMMON("src_image_size_h", KEY_INTEGER, height),
    COMMON("csc_switch", KEY_SWITCH, csc),
    COMMON("rbuv_swap_switch", KEY_SWITCH, swap_rb),
    COMMON("ax_swap_switch", KEY_SWITCH, swap_ax),
    COMMON("padding_value", KEY_REAL, padding_value),
    COMMON("matrix_r0c0", KEY_INTEGER, matrix[0]),
    COMMON("matrix_r0c1", KEY_INTEGER, matrix[1]),
    COMMON("matrix_r0c2", KEY_INTEGER, matrix[2]),
    COMMON("matrix_r1c0", KEY_INTEGER, matrix[3]),
    COMMON("matrix_r1c1", KEY_INTEGER, matrix[4]),
    COMMON("matrix_r1c2", KEY_INTEGER, matrix[5]),
    COMMON("matrix_r2c0", KEY_INTEGER, matrix[6]),
    COMMON("matrix_r2c1", KEY_INTEGER, matrix[7]),
    COMMON("matrix_r2c2", KEY_INTEGER, matrix[8]),
    THREE("output_bias_", out_bias),
    THREE("input_bias_", in_bias),
    PICTURE("crop", KEY_SWITCH, crop),
    PICTURE("load_start_pos_w", KEY_INTEGER, crop_x),
    PICTURE("load_start_pos_h", KEY_INTEGER, crop_y),
    PICTURE("crop_size_w", KEY_INTEGER, crop_w),
    PICTURE("crop_size_h", KEY_INTEGER, crop_h),
    PICTURE("padding", KEY_SWITCH, padding),
    PICTURE("top_padding_size", KEY_INTEGER, top),
    PICTURE("bottom_padding_size", KEY_INTEGER, bottom),
    PICTURE("left_padding_size", KEY_INTEGER, left),
    PICTURE("right_padding_size", KEY_INTEGER, right),
    CHANNELS("mean_chn_", KEY_INTEGER, mean),
    CHANNELS("min_chn_", KEY_REAL, min),
    CHANNELS("var_reci_chn_", KEY_REAL, reciprocal),
};

static bool switch_of(const char *value, int32_t *to) {
  const bool on = !strcmp(value, "true") || !strcmp(value, "1");
  *to = on;
  return on || !strcmp(value, "false") || !strcmp(value, "0");
}

static bool set_key(const aipp_key *k, const char *value, aipp_config *c) {
  void *at = (char *)c + k->offset;
  char *end = NULL;
  switch (k->kind) {
  case KEY_SWITCH: return switch_of(value, at);
  case KEY_REAL: *(float *)at = strtof(value, &end); break;
  case KEY_LARGE: *(uint64_t *)at = strtoull(value, &end, 10); break;
  default: {
    const long long number = strtoll(value, &end, 10);
    *(int32_t *)at = (int32_t)number;
    if (number < -65536 || number > 65536) return false;
  }
  }
  return end != value && !*end;
}

static status set_format(const char *value, aipp_config *c) {
  static const char *const names[] = {[AIPP_YUV420SP] = "YUV420SP_U8",
                                      [AIPP_XRGB8888] = "XRGB8888_U8",
                                      [AIPP_RGB888] = "RGB888_U8",
                                      [AIPP_YUV400] = "YUV400_U8"};
  for (int i = AIPP_YUV420SP; i <= AIPP_YUV400; ++i)
    if (!strcmp(value, names[i])) return c->common.format = i, ST_OK;
  return fail(ST_INVALID_PARAM, "input_format is %s, expected YUV420SP_U8, XRGB8888_U8, RGB888_U8 or YUV400_U8", value);
}

static status aipp_set_value(const char *key, const char *value, aipp_config *c) {
  int32_t on;
  if (!strcmp(key, "aipp_mode")) {
    c->dynamic = !strcmp(value, "dynamic");
    return c->dynamic || !strcmp(value, "static")
               ? ST_OK
               : fail(ST_INVALID_PARAM, "aipp_mode is %s, expected static or dynamic", value);
  }
  if (!strcmp(key, "input_format")) return set_format(value, c);
  if (!strcmp(key, "resize") || !strcmp(key, "support_rotation")) {
    if (switch_of(value, &on) && !on) return ST_OK;
    return fail(ST_INVALID_PARAM, "%s is %s, expected false: it is not supported", key, value);
  }
  if (!strcmp(key, "single_line_mode") || !strcmp(key, "input_edge_idx") || !strcmp(key, "cpadding_value"))
    return ST_OK; /* of other devices, or without a meaning here */
  for (size_t i = 0; i < sizeof aipp_keys / sizeof *aipp_keys; ++i)
    if (!strcmp(aipp_keys[i].name, key))
      return set_key(&aipp_keys[i], value, c)
                 ? ST_OK
                 : fail(ST_INVALID_PARAM, "%s is %s, which is no value for it", key, value);
  return fail(ST_INVALID_PARAM, "%s is no key of aipp_op", key);
}

static status check_config(const aipp_config *c) {
  if (!c->dynamic && !c->common.format) return fail(ST_INVALID_PARAM, "input_format is missing in a static aipp_op");
  if (c->dynamic && (!c->most_bytes || c->most_bytes > UINT32_MAX))
    return fail(ST_INVALID_PARAM, "max_src_image_size is missing in a dynamic aipp_op, or 0, or more than 4 GiB");
  return ST_OK;
}

/* A word of the text, or one of { } :, in a buffer; "" at the end. Comments and commas are passed over. */
static const char *next_word(const char *at, char *word, size_t room) {
  for (;;) {
    at += strspn(at, " \t\r\n,;");
    if (*at != '#') break;
    at += strcspn(at, "\n");
  }
  size_t n = strchr("{}:", *at) && *at ? 1 : strcspn(at, " \t\r\n,;#{}:");
  snprintf(word, room, "%.*s", (int)n, at);
  if (n > 1 && (word[0] == '"' || word[0] == '\'')) { /* a text in quotes */
    memmove(word, word + 1, strlen(word));
    word[strcspn(word, "\"'")] = 0;
  }
  return at + n;
}

/* The keys of one operator, behind its brace. */
static const char *read_op(const char *at, aipp_config *c, status *st) {
  char key[64], value[64];
  *c = (aipp_config){0};
  aipp_defaults(&c->common, &c->picture);
  for (;;) {
    at = next_word(at, key, sizeof key);
    if (!strcmp(key, "}")) break;
    at = next_word(at, value, sizeof value);
    if (strcmp(value, ":") != 0 || !*key) {
      *st =
          fail(ST_INVALID_PARAM, "\"%s\" is followed by \"%s\", expected \"key : value\" and } in aipp_op", key, value);
      return at;
    }
    at = next_word(at, value, sizeof value);
    if ((*st = aipp_set_value(key, value, c)) != ST_OK) return at;
  }
  *st = check_config(c);
  return at;
}

status aipp_read(const char *text, aipp_config *configs, int *n) {
  char word[64];
  status st = ST_OK;
  *n = 0;
  for (const char *at = next_word(text, word, sizeof word); *word && st == ST_OK;
       at = next_word(at, word, sizeof word)) {
    if (strcmp(word, "aipp_op") != 0) return fail(ST_INVALID_PARAM, "\"%s\" is there, expected aipp_op {", word);
    at = next_word(at, word, sizeof word);
    if (!strcmp(word, ":")) at = next_word(at, word, sizeof word);
    if (strcmp(word, "{") != 0) return fail(ST_INVALID_PARAM, "aipp_op is followed by \"%s\", expected {", word);
    if (*n == AIPP_MOST) return fail(ST_INVALID_PARAM, "there are more than %d aipp_op", AIPP_MOST);
    at = read_op(at, &configs[(*n)++], &st);
  }
  if (st == ST_OK && !*n) return fail(ST_INVALID_PARAM, "there is no aipp_op");
  return st;
}

char *aipp_line(const char *text) {
  char *line = malloc(strlen(text) + 1);
  size_t n = 0;
  bool comment = false;
  if (!line) return NULL;
  for (; *text; ++text) {
    if (*text == '#') comment = true;
    if (*text == '\n') comment = false;
    if (!comment) line[n++] = isspace((unsigned char)*text) ? ' ' : *text;
  }
  line[n] = 0;
  return line;
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

uint64_t aipp_picture_bytes(const aipp_common *c, int64_t width, int64_t height) {
  const uint64_t pixels = (uint64_t)width * (uint64_t)height;
  switch (c->format) {
  case AIPP_YUV420SP: return pixels + pixels / 2;
  case AIPP_XRGB8888: return pixels * 4;
  case AIPP_RGB888: return pixels * 3;
  default: return pixels;
  }
}

/* The part of the source that is used. */
typedef struct {
  int64_t x, y, w, h;
} part;

static part aipp_part_of(const aipp_common *c, const aipp_picture *p) {
  if (!p->crop) return (part){0, 0, c->width, c->height};
  return (part){p->crop_x, p->crop_y, p->crop_w ? p->crop_w : c->width - p->crop_x,
                p->crop_h ? p->crop_h : c->height - p->crop_y};
}

status aipp_check(const aipp_common *c, const aipp_picture *p, int64_t channels, int64_t height, int64_t width) {
  const part used = aipp_part_of(c, p);
  const int64_t more_w = p->padding ? (int64_t)p->left + p->right : 0;
  const int64_t more_h = p->padding ? (int64_t)p->top + p->bottom : 0;
  const int most = c->format == AIPP_YUV400 ? 1 : c->format == AIPP_XRGB8888 ? 4 : 3;
  if (c->format < AIPP_YUV420SP || c->format > AIPP_YUV400)
    return fail(ST_INVALID_PARAM, "the format of the picture is %d, which is not supported", (int)c->format);
  if (channels > most)
    return fail(ST_INVALID_PARAM, "the model takes %jd channels, a picture has %d", (intmax_t)channels, most);
  if (c->width < 1 || c->height < 1 || c->width > 4096 || c->height > 4096)
    return fail(ST_INVALID_PARAM, "the picture is %d x %d, expected 1 to 4096", (int)c->width, (int)c->height);
  if (c->format == AIPP_YUV420SP && ((c->width | c->height | used.x | used.y) & 1))
    return fail(ST_INVALID_PARAM, "a YUV420SP picture is %d x %d from %jd, %jd on, expected even numbers",
                (int)c->width, (int)c->height, (intmax_t)used.x, (intmax_t)used.y);
  if (used.x < 0 || used.y < 0 || used.w < 1 || used.h < 1 || used.x + used.w > c->width || used.y + used.h > c->height)
    return fail(ST_INVALID_PARAM, "the part %jd x %jd at %jd, %jd is not inside of the picture, %d x %d",
                (intmax_t)used.w, (intmax_t)used.h, (intmax_t)used.x, (intmax_t)used.y, (int)c->width, (int)c->height);
  if (p->padding && (p->left < 0 || p->right < 0 || p->top < 0 || p->bottom < 0))
    return fail(ST_INVALID_PARAM, "a padding is negative");
  if (used.w + more_w != width || used.h + more_h != height)
    return fail(ST_INVALID_PARAM, "the prepared picture is %jd x %jd, expected the model's %jd x %jd (width x height)",
                (intmax_t)(used.w + more_w), (intmax_t)(used.h + more_h), (intmax_t)width, (intmax_t)height);
  return ST_OK;
}

/* The values of a pixel, in the order in which channels follow each other. */
static void read_pixel(const aipp_common *c, const uint8_t *source, int64_t x, int64_t y, int32_t *v) {
  const int64_t at = y * c->width + x;
  switch (c->format) {
  case AIPP_YUV420SP: {
    const uint8_t *chroma = source + (int64_t)c->width * c->height + y / 2 * c->width + x / 2 * 2;
    v[0] = source[at], v[1] = chroma[c->swap_rb != 0], v[2] = chroma[c->swap_rb == 0];
    break;
  }
  case AIPP_XRGB8888:
    for (int i = 0; i < 4; ++i) v[i] = source[at * 4 + (c->swap_ax ? (i + 1) % 4 : i)];
    if (c->swap_rb) {
      const int red = c->swap_ax ? 0 : 1;
      const int32_t kept = v[red];
      v[red] = v[red + 2], v[red + 2] = kept;
    }
    break;
  case AIPP_RGB888:
    for (int i = 0; i < 3; ++i) v[i] = source[at * 3 + (c->swap_rb ? 2 - i : i)];
    break;
  default: v[0] = source[at];
  }
}

static void convert_colours(const aipp_common *c, int32_t *v) {
  const int32_t *const from = v + (c->format == AIPP_XRGB8888 && !c->swap_ax);
  int32_t in[3], out[3];
  for (int i = 0; i < 3; ++i) in[i] = from[i] - c->in_bias[i];
  for (int i = 0; i < 3; ++i) {
    int32_t sum = 0;
    for (int k = 0; k < 3; ++k) sum += c->matrix[3 * i + k] * in[k];
    out[i] = (sum >> 8) + c->out_bias[i];
    out[i] = out[i] < 0 ? 0 : out[i] > 255 ? 255 : out[i];
  }
  memcpy(v, out, sizeof out);
}

static void put_value(void *to, bool half, int64_t at, float value) {
  if (half)
    ((uint16_t *)to)[at] = half_from_float(value);
  else
    ((float *)to)[at] = value;
}

/* to: [channels][height][width] of float, or of float16. */
static void aipp_prepare(const aipp_common *c, const aipp_picture *p, const uint8_t *source, int64_t channels,
                         int64_t height, int64_t width, bool half, void *to) {
  const part used = aipp_part_of(c, p);
  const int64_t left = p->padding ? p->left : 0, top = p->padding ? p->top : 0;
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const int64_t from_x = x - left, from_y = y - top;
      const bool inside = from_x >= 0 && from_y >= 0 && from_x < used.w && from_y < used.h;
      int32_t v[AIPP_CHANNELS] = {0};
      if (inside) read_pixel(c, source, used.x + from_x, used.y + from_y, v);
      if (inside && c->csc && c->format != AIPP_YUV400) convert_colours(c, v);
      for (int64_t k = 0; k < channels; ++k) {
        const float value = ((float)(v[k] - p->mean[k]) - p->min[k]) * p->reciprocal[k];
        put_value(to, half, (k * height + y) * width + x, inside ? value : c->padding_value);
      }
    }
}

status aipp_run(const aipp_config *c, const aipp_source *s, const int64_t *dims, void *to) {
  const aipp_header *given = s->parameters;
  const aipp_common common = given ? given->common : c->common;
  const uint64_t bytes = aipp_picture_bytes(&common, common.width, common.height), n = given ? given->n : 1;
  const int64_t elements = dims[1] * dims[2] * dims[3];
  if (given && (given->magic != AIPP_MAGIC || !n || n > (s->parameter_bytes - sizeof *given) / sizeof(aipp_picture)))
    return fail(ST_AIPP_BATCH_EMPTY,
                "there are no parameters for the pictures of input %d, expected "
                "aclmdlSetInputAIPP before",
                c->input);
  for (int64_t i = 0; i < dims[0]; ++i) {
    aipp_picture own = c->picture;
    const uint64_t at = (uint64_t)i < n ? (uint64_t)i : n - 1; /* the last parameters are for all further pictures */
    if (given) memcpy(&own, (const char *)(given + 1) + at * sizeof own, sizeof own);
    TRY(aipp_check(&common, &own, dims[1], dims[2], dims[3]));
    if (((uint64_t)i + 1) * bytes > s->source_bytes)
      return fail(ST_MODEL_INPUT, "input %d has a buffer of %ju bytes, expected %ju: %jd pictures of %ju", c->input,
                  (uintmax_t)s->source_bytes, (uintmax_t)(bytes * (uint64_t)dims[0]), (intmax_t)dims[0],
                  (uintmax_t)bytes);
    aipp_prepare(&common, &own, s->source + (uint64_t)i * bytes, dims[1], dims[2], dims[3], c->half,
                 (char *)to + i * elements * (c->half ? 2 : 4));
  }
  return ST_OK;
}
