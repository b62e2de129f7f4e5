/* SPDX-License-Identifier: Apache-2.0 */
/* AIPP: models that take pictures, which are prepared as a part of the model or an execution says. The models give back
 * what they get. */
#include "cannon/model.h"

#include <math.h>

#include "acl_test.h"
#include "onnx_writer.h"

enum { N = 2, C = 3, H = 6, W = 8, ELEMENTS = N * C * H * W, MOST_BYTES = 4096 };

static aclError build_of(int dtype, const char *aipp, void **om, size_t *bytes) {
  const int64_t dims[] = {N, C, H, W};
  written graph = {0}, model = {0};
  write_node(&graph, "node", "Identity", (const char *const[]){"x", NULL}, "y");
  write_text(&graph, 2, "pictures");
  write_value(&graph, 11, "x", dtype, dims, 4);
  write_value(&graph, 12, "y", dtype, dims, 4);
  write_model(&model, &graph);
  const cannon_model_options o = {.aipp = aipp};
  return cannon_model_build_from_memory(model.bytes, model.n, &o, om, bytes, NULL);
}

static aclError build(const char *aipp, void **om, size_t *bytes) { return build_of(WRITTEN_FLOAT, aipp, om, bytes); }

static uint32_t loaded(const char *aipp) {
  uint32_t id = 0;
  size_t bytes;
  void *om;
  CHECK_OK(build(aipp, &om, &bytes));
  CHECK_OK(aclmdlLoadFromMem(om, bytes, &id));
  free(om);
  return id;
}

static void refused(const char *aipp, const char *words) {
  size_t bytes;
  void *om;
  while (aclGetRecentErrMsg()) continue;
  CHECK_FAILS(build(aipp, &om, &bytes));
  const char *message = aclGetRecentErrMsg();
  assert_non_null(message);
  if (!strstr(message, words)) fail_msg("\"%s\" lacks \"%s\"", message, words);
}

typedef struct {
  uint32_t id;
  aclmdlDataset *in, *out;
  void *source, *parameters, *result;
} session;

static session session_of(uint32_t id, const uint8_t *source, size_t bytes, size_t parameter_bytes) {
  session s = {id,
               aclmdlCreateDataset(),
               aclmdlCreateDataset(),
               dev_from(source, bytes),
               NULL,
               dev_filled(0, ELEMENTS * sizeof(float))};
  CHECK_OK(aclmdlAddDatasetBuffer(s.in, aclCreateDataBuffer(s.source, bytes)));
  if (parameter_bytes) {
    s.parameters = dev_filled(0, parameter_bytes);
    CHECK_OK(aclmdlAddDatasetBuffer(s.in, aclCreateDataBuffer(s.parameters, parameter_bytes)));
  }
  CHECK_OK(aclmdlAddDatasetBuffer(s.out, aclCreateDataBuffer(s.result, ELEMENTS * sizeof(float))));
  return s;
}

static void session_end(session *s) {
  aclmdlDataset *const both[] = {s->in, s->out};
  for (int i = 0; i < 2; ++i) {
    for (size_t k = 0; k < aclmdlGetDatasetNumBuffers(both[i]); ++k)
      CHECK_OK(aclDestroyDataBuffer(aclmdlGetDatasetBuffer(both[i], k)));
    CHECK_OK(aclmdlDestroyDataset(both[i]));
  }
  CHECK_OK(aclrtFree(s->source));
  if (s->parameters) CHECK_OK(aclrtFree(s->parameters));
  CHECK_OK(aclrtFree(s->result));
  CHECK_OK(aclmdlUnload(s->id));
}

static void check_result(const session *s, const float *expected) {
  static float got[ELEMENTS];
  CHECK_OK(aclrtMemcpy(got, sizeof got, s->result, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
  for (int i = 0; i < ELEMENTS; ++i)
    if (fabsf(got[i] - expected[i]) > 1e-4f)
      fail_msg("picture %d, channel %d, row %d, column %d: %g, expected %g", i / (C * H * W), i / (H * W) % C,
               i / W % H, i % W, (double)got[i], (double)expected[i]);
}

static const uint8_t *noise(void) {
  static uint8_t bytes[MOST_BYTES];
  uint32_t x = 12345;
  for (int i = 0; i < MOST_BYTES; ++i) bytes[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
  return bytes;
}

static int at(int n, int c, int y, int x) { return ((n * C + c) * H + y) * W + x; }

static void static_rgb(void **state) {
  (void)state;
  enum { SW = 12, SH = 10, X0 = 3, Y0 = 2 };
  const uint8_t *source = noise();
  static float expected[ELEMENTS];
  /* 6 x 5 pixels are cut out, and get a border of 1 at the left and at the right, 1 above */
  for (int n = 0; n < N; ++n)
    for (int c = 0; c < C; ++c)
      for (int y = 0; y < H; ++y)
        for (int x = 0; x < W; ++x) {
          const bool inside = x >= 1 && x < 7 && y >= 1;
          const int pixel = (n * SH + Y0 + y - 1) * SW + X0 + x - 1;
          expected[at(n, c, y, x)] =
              inside ? ((float)source[pixel * 3 + 2 - c] - (float)(10 * (c + 1)) - 0.5f) * 0.25f : 7;
        }
  const uint32_t id = loaded("# a comment\n"
                             "aipp_op {\n  aipp_mode: static\n  input_format : RGB888_U8\n  rbuv_swap_switch: true\n"
                             "  src_image_size_w: 12\n  src_image_size_h: 10 # more\n  crop: true\n"
                             "  load_start_pos_w: 3\n  load_start_pos_h: 2\n  crop_size_w: 6\n  crop_size_h: 5\n"
                             "  padding: true\n  left_padding_size: 1\n  right_padding_size: 1\n"
                             "  top_padding_size: 1\n  padding_value: 7\n"
                             "  mean_chn_0: 10 mean_chn_1: 20 mean_chn_2: 30\n"
                             "  min_chn_0: 0.5 min_chn_1: 0.5 min_chn_2: 0.5\n"
                             "  var_reci_chn_0: 0.25 var_reci_chn_1: 0.25 var_reci_chn_2: 0.25\n}\n");
  aclmdlDesc *d = aclmdlCreateDesc();
  aclmdlIODims dims;
  aclmdlInputAippType type;
  size_t attached = 0;
  static aclAippInfo info;
  CHECK_OK(aclmdlGetDesc(d, id));
  assert_int_equal(aclmdlGetNumInputs(d), 1);
  assert_int_equal(aclmdlGetInputDataType(d, 0), ACL_UINT8);
  assert_int_equal(aclmdlGetInputSizeByIndex(d, 0), N * SH * SW * 3);
  CHECK_OK(aclmdlGetInputDims(d, 0, &dims));
  assert_int_equal(dims.dimCount, 4);
  assert_memory_equal(dims.dims, ((const int64_t[]){N, SH, SW, 3}), 4 * sizeof(int64_t));
  CHECK_OK(aclmdlGetAippType(id, 0, &type, &attached));
  assert_int_equal(type, ACL_DATA_WITH_STATIC_AIPP);
  assert_int_equal(attached, UINT32_MAX);
  CHECK_OK(aclmdlGetFirstAippInfo(id, 0, &info));
  assert_int_equal(info.inputFormat, ACL_RGB888_U8);
  assert_int_equal(info.srcImageSizeW, SW);
  assert_int_equal(info.cropSizeH, 5);
  assert_int_equal(info.meanChn2, 30);
  assert_true(info.varReciChn1 == 0.25f);
  assert_int_equal(info.outDims[0].srcSize, N * SH * SW * 3);

  session s = session_of(id, source, N * SH * SW * 3, 0);
  CHECK_OK(aclmdlExecute(id, s.in, s.out));
  check_result(&s, expected);
  aclmdlAIPP *aipp = aclmdlCreateAIPP(1);
  CHECK_CODE(ACL_ERROR_GE_AIPP_MODE_INVALID, aclmdlSetAIPPByInputIndex(id, s.in, 0, aipp));
  CHECK_CODE(ACL_ERROR_GE_AIPP_NOT_EXIST, aclmdlSetInputAIPP(id, s.in, 0, aipp));
  CHECK_OK(aclmdlDestroyAIPP(aipp));
  CHECK_OK(aclmdlDestroyDesc(d));
  session_end(&s);
}

static int clipped(int v) { return v < 0 ? 0 : v > 255 ? 255 : v; }

/* NV12 to RGB with the matrix of CANN's documentation for JPEG pictures. */
static void expect_yuv(const uint8_t *source, int n, float mean, float *expected) {
  const uint8_t *luma = source + n * (H * W * 3 / 2), *chroma = luma + H * W;
  for (int y = 0; y < H; ++y)
    for (int x = 0; x < W; ++x) {
      const int l = luma[y * W + x], u = chroma[y / 2 * W + x / 2 * 2] - 128,
                v = chroma[y / 2 * W + x / 2 * 2 + 1] - 128;
      expected[at(n, 0, y, x)] = (float)clipped((256 * l + 359 * v) >> 8) - mean;
      expected[at(n, 1, y, x)] = (float)clipped((256 * l - 88 * u - 183 * v) >> 8) - mean;
      expected[at(n, 2, y, x)] = (float)clipped((256 * l + 454 * u) >> 8) - mean;
    }
}

static void static_yuv(void **state) {
  (void)state;
  static float expected[ELEMENTS];
  for (int n = 0; n < N; ++n) expect_yuv(noise(), n, 0, expected);
  const uint32_t id = loaded("aipp_op { aipp_mode: static input_format: YUV420SP_U8 csc_switch: true\n"
                             "matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359 matrix_r1c0: 256 matrix_r1c1: -88\n"
                             "matrix_r1c2: -183 matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0\n"
                             "input_bias_0: 0 input_bias_1: 128 input_bias_2: 128 }");
  aclmdlDesc *d = aclmdlCreateDesc();
  aclmdlIODims dims;
  CHECK_OK(aclmdlGetDesc(d, id));
  assert_int_equal(aclmdlGetInputFormat(d, 0), ACL_FORMAT_NHWC);
  assert_int_equal(aclmdlGetOutputFormat(d, 0), ACL_FORMAT_NCHW);
  CHECK_OK(aclmdlGetInputDimsV2(d, 0, &dims));
  assert_memory_equal(dims.dims, ((const int64_t[]){N, H * 3 / 2, W, 1}), 4 * sizeof(int64_t));
  CHECK_OK(aclmdlDestroyDesc(d));
  session s = session_of(id, noise(), N * H * W * 3 / 2, 0);
  CHECK_OK(aclmdlExecute(id, s.in, s.out));
  check_result(&s, expected);
  session_end(&s);
}

static void static_in_float16(void **state) {
  (void)state;
  static aclFloat16 got[ELEMENTS];
  static aclAippInfo info;
  size_t bytes;
  uint32_t id;
  void *om;
  CHECK_OK(
      build_of(WRITTEN_FLOAT16, "aipp_op { input_format: RGB888_U8 mean_chn_1: 4 var_reci_chn_1: 0.5 }", &om, &bytes));
  CHECK_OK(aclmdlLoadFromMem(om, bytes, &id));
  free(om);
  CHECK_OK(aclmdlGetFirstAippInfo(id, 0, &info));
  assert_int_equal(info.srcDatatype, ACL_FLOAT16);
  assert_int_equal(info.outDims[0].aippOutSize, sizeof got);
  session s = session_of(id, noise(), N * H * W * 3, 0);
  CHECK_OK(aclmdlExecute(id, s.in, s.out));
  CHECK_OK(aclrtMemcpy(got, sizeof got, s.result, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
  for (int n = 0; n < N; ++n)
    for (int y = 0; y < H; ++y)
      for (int x = 0; x < W; ++x) {
        const uint8_t *pixel = noise() + ((n * H + y) * W + x) * 3;
        assert_true(aclFloat16ToFloat(got[at(n, 0, y, x)]) == (float)pixel[0]);
        assert_true(aclFloat16ToFloat(got[at(n, 1, y, x)]) == (float)(pixel[1] - 4) * 0.5f);
        assert_true(aclFloat16ToFloat(got[at(n, 2, y, x)]) == (float)pixel[2]);
      }
  session_end(&s);
}

static void dynamic(void **state) {
  (void)state;
  static float expected[ELEMENTS];
  const uint32_t id = loaded("aipp_op { aipp_mode: dynamic max_src_image_size: 1000 }");
  aclmdlDesc *d = aclmdlCreateDesc();
  aclmdlInputAippType type;
  size_t index, attached, bytes;
  CHECK_OK(aclmdlGetDesc(d, id));
  assert_int_equal(aclmdlGetNumInputs(d), 2);
  assert_int_equal(aclmdlGetInputSizeByIndex(d, 0), N * 1000);
  CHECK_OK(aclmdlGetInputIndexByName(d, ACL_DYNAMIC_AIPP_NAME, &index));
  assert_int_equal(index, 1);
  CHECK_OK(aclmdlGetAippDataSize(N, &bytes));
  assert_int_equal(aclmdlGetInputSizeByIndex(d, 1), bytes);
  CHECK_OK(aclmdlGetAippType(id, 0, &type, &attached));
  assert_int_equal(type, ACL_DATA_WITH_DYNAMIC_AIPP);
  assert_int_equal(attached, 1);
  CHECK_OK(aclmdlGetAippType(id, 1, &type, &attached));
  assert_int_equal(type, ACL_DYNAMIC_AIPP_NODE);
  CHECK_OK(aclmdlDestroyDesc(d));

  session s = session_of(id, noise(), N * 1000, bytes);
  CHECK_OK(aclmdlExecuteAsync(id, s.in, s.out, NULL)); /* without parameters */
  CHECK_CODE(ACL_ERROR_GE_AIPP_BATCH_EMPTY, aclrtSynchronizeStream(NULL));

  aclmdlAIPP *aipp = aclmdlCreateAIPP(N);
  CHECK_OK(aclmdlSetAIPPInputFormat(aipp, ACL_YUV420SP_U8));
  CHECK_OK(aclmdlSetAIPPSrcImageSize(aipp, W, H));
  CHECK_OK(aclmdlSetAIPPCscParams(aipp, 1, 256, 0, 359, 256, -88, -183, 256, 454, 0, 0, 0, 0, 0, 128, 128));
  for (int n = 0; n < N; ++n) {
    CHECK_OK(aclmdlSetAIPPDtcPixelMean(aipp, (int16_t)(n * 5), (int16_t)(n * 5), (int16_t)(n * 5), 0, (uint64_t)n));
    expect_yuv(noise(), n, (float)(n * 5), expected);
  }
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetAIPPDtcPixelMean(aipp, 0, 0, 0, 0, N));
  CHECK_OK(aclmdlSetInputAIPP(id, s.in, 1, aipp));
  CHECK_OK(aclmdlExecute(id, s.in, s.out));
  check_result(&s, expected);

  /* another format, by the number of the picture's input, in a picture that is larger than the model's */
  CHECK_OK(aclmdlSetAIPPInputFormat(aipp, ACL_XRGB8888_U8));
  CHECK_OK(aclmdlSetAIPPSrcImageSize(aipp, W + 2, H));
  CHECK_OK(aclmdlSetAIPPAxSwapSwitch(aipp, 1));
  CHECK_OK(aclmdlSetAIPPCscParams(aipp, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetAIPPByInputIndex(id, s.in, 0, aipp)); /* not the model's width */
  for (int n = 0; n < N; ++n) {
    CHECK_OK(aclmdlSetAIPPDtcPixelMean(aipp, 0, 0, 0, 0, (uint64_t)n));
    CHECK_OK(aclmdlSetAIPPPixelVarReci(aipp, 0.5f, 0.5f, 0.5f, 1, (uint64_t)n));
    CHECK_OK(aclmdlSetAIPPCropParams(aipp, 1, 2, 0, W, H, (uint64_t)n));
    for (int c = 0; c < C; ++c)
      for (int y = 0; y < H; ++y)
        for (int x = 0; x < W; ++x)
          expected[at(n, c, y, x)] = 0.5f * (float)noise()[((n * H + y) * (W + 2) + x + 2) * 4 + 1 + c];
  }
  CHECK_OK(aclmdlSetAIPPByInputIndex(id, s.in, 0, aipp));
  CHECK_OK(aclmdlExecute(id, s.in, s.out));
  check_result(&s, expected);
  CHECK_OK(aclmdlDestroyAIPP(aipp));
  session_end(&s);
}

static void wrong_parameters(void **state) {
  (void)state;
  aclmdlAIPP *aipp = aclmdlCreateAIPP(1);
  assert_null(aclmdlCreateAIPP(0));
  CHECK_FAILS(aclmdlSetAIPPInputFormat(aipp, ACL_RAW10));
  CHECK_FAILS(aclmdlSetAIPPSrcImageSize(aipp, 0, 10));
  CHECK_FAILS(aclmdlSetAIPPRbuvSwapSwitch(aipp, 2));
  CHECK_FAILS(aclmdlSetAIPPCropParams(aipp, 1, 0, 0, 0, 4, 0));
  CHECK_FAILS(aclmdlSetAIPPPaddingParams(aipp, 1, 33, 0, 0, 0, 0));
  CHECK_OK(aclmdlSetAIPPScfParams(aipp, 0, 0, 0, 0, 0, 0));
  CHECK_CODE(ACL_ERROR_FEATURE_UNSUPPORTED, aclmdlSetAIPPScfParams(aipp, 1, 32, 32, 16, 16, 0));
  CHECK_FAILS(aclmdlGetAippDataSize(0, NULL));
  CHECK_OK(aclmdlDestroyAIPP(aipp));
  CHECK_FAILS(aclmdlDestroyAIPP(NULL));
}

static void wrong_configurations(void **state) {
  (void)state;
  refused("", "no aipp_op");
  refused("aipp_op { aipp_mode: static }", "input_format is missing");
  refused("aipp_op { aipp_mode: sometimes }", "expected static or dynamic");
  refused("aipp_op { aipp_mode: static input_format: RAW10 }", "input_format is RAW10");
  refused("aipp_op { aipp_mode: dynamic }", "max_src_image_size is missing");
  refused("aipp_op { nothing: 1 }", "nothing is no key");
  refused("aipp_op { crop: perhaps }", "crop is perhaps");
  refused("aipp_op { resize: true }", "resize is true");
  refused("aipp_op { crop 1 }", "expected \"key : value\"");
  refused("aipp_op { aipp_mode: static input_format: RGB888_U8", "in aipp_op");
  refused("other { }", "expected aipp_op");
  refused("aipp_op { related_input_rank: 3 input_format: RGB888_U8 }", "related_input_rank is 3");
  refused("aipp_op { input_format: YUV400_U8 }", "takes 3 channels");
  refused("aipp_op { input_format: RGB888_U8 src_image_size_w: 9 src_image_size_h: 6 }", "expected the model's 8 x 6");
  refused("aipp_op { input_format: RGB888_U8 crop: 1 load_start_pos_w: 5 crop_size_w: 8 }", "is not inside");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(static_rgb), cmocka_unit_test(static_yuv),       cmocka_unit_test(static_in_float16),
      cmocka_unit_test(dynamic),    cmocka_unit_test(wrong_parameters), cmocka_unit_test(wrong_configurations),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
