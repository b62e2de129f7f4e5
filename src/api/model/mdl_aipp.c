/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for the preparation of pictures in front of a model (graph/aipp.h). */
#include <stdlib.h>
#include <string.h>

#include "api/model/mdl.h"
#include "api/op/data_buffer.h"
#include "memory/memory.h"

/* Parameters for a batch of pictures. Belongs to the program; one thread at a time uses it. */
struct aclmdlAIPP {
  uint64_t n;
  aipp_common common;
  aipp_picture pictures[];
};

enum { MOST_PICTURES = 65536 };

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static status aipp_expect_batch(uint64_t n) {
  if (n >= 1 && n <= MOST_PICTURES) return ST_OK;
  return fail(ST_INVALID_PARAM, "batchSize is %ju, expected 1 to %d", (uintmax_t)n, MOST_PICTURES);
}

aclmdlAIPP *aclmdlCreateAIPP(uint64_t batchSize) {
  API_ENTER();
  if (API_RESULT(aipp_expect_batch(batchSize)) != ACL_SUCCESS) return NULL;
  aclmdlAIPP *a = calloc(1, sizeof *a + batchSize * sizeof *a->pictures);
  if (!a) {
    API_RESULT(fail(ST_NO_HOST_MEMORY, "no host memory for the parameters of %ju pictures", (uintmax_t)batchSize));
    return NULL;
  }
  a->n = batchSize;
  aipp_defaults(&a->common, NULL);
  for (uint64_t i = 0; i < batchSize; ++i) aipp_defaults(NULL, &a->pictures[i]);
  API_TELL_HANDLE(HOOK_AIPP, HOOK_HANDLE_CREATED, a);
  return a;
}

aclError aclmdlDestroyAIPP(const aclmdlAIPP *aippParmsSet) {
  API_ENTER();
  NEED(aippParmsSet);
  API_TELL_HANDLE(HOOK_AIPP, HOOK_HANDLE_DESTROYED, aippParmsSet);
  free((aclmdlAIPP *)(uintptr_t)aippParmsSet);
  return ACL_SUCCESS;
}

aclError aclmdlGetAippDataSize(uint64_t batchSize, size_t *size) {
  API_ENTER();
  NEED(size);
  NEED_OK(aipp_expect_batch(batchSize));
  *size = aipp_bytes(batchSize);
  return ACL_SUCCESS;
}

static status aipp_expect_switch(int value, const char *name) {
  if (value == 0 || value == 1) return ST_OK;
  return fail(ST_INVALID_PARAM, "%s is %d, expected 0 or 1", name, value);
}

static status aipp_expect_range(int32_t value, int32_t low, int32_t high, const char *name) {
  if (value >= low && value <= high) return ST_OK;
  return fail(ST_INVALID_PARAM, "%s is %d, expected %d to %d", name, (int)value, (int)low, (int)high);
}

static status picture_at(aclmdlAIPP *a, uint64_t index, aipp_picture **out) {
  if (index >= a->n)
    return fail(ST_INVALID_PARAM, "batchIndex is %ju, expected less than %ju", (uintmax_t)index, (uintmax_t)a->n);
  *out = &a->pictures[index];
  return ST_OK;
}

aclError aclmdlSetAIPPInputFormat(aclmdlAIPP *aippParmsSet, aclAippInputFormat inputFormat) {
  API_ENTER();
  NEED(aippParmsSet);
  if (inputFormat < ACL_YUV420SP_U8 || inputFormat > ACL_YUV400_U8)
    API_RETURN(fail(ST_UNSUPPORTED, "inputFormat is %d, expected YUV420SP, XRGB8888, RGB888 or YUV400 (1 to 4)",
                    (int)inputFormat));
  aippParmsSet->common.format = (int32_t)inputFormat;
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPSrcImageSize(aclmdlAIPP *aippParmsSet, int32_t srcImageSizeW, int32_t srcImageSizeH) {
  API_ENTER();
  NEED(aippParmsSet);
  NEED_OK(aipp_expect_range(srcImageSizeW, 2, 4096, "srcImageSizeW"));
  NEED_OK(aipp_expect_range(srcImageSizeH, 1, 4096, "srcImageSizeH"));
  aippParmsSet->common.width = srcImageSizeW;
  aippParmsSet->common.height = srcImageSizeH;
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPCscParams(aclmdlAIPP *aippParmsSet, int8_t cscSwitch, int16_t cscMatrixR0C0,
                                int16_t cscMatrixR0C1, int16_t cscMatrixR0C2, int16_t cscMatrixR1C0,
                                int16_t cscMatrixR1C1, int16_t cscMatrixR1C2, int16_t cscMatrixR2C0,
                                int16_t cscMatrixR2C1, int16_t cscMatrixR2C2, uint8_t cscOutputBiasR0,
                                uint8_t cscOutputBiasR1, uint8_t cscOutputBiasR2, uint8_t cscInputBiasR0,
                                uint8_t cscInputBiasR1, uint8_t cscInputBiasR2) {
  API_ENTER();
  NEED(aippParmsSet);
  NEED_OK(aipp_expect_switch(cscSwitch, "cscSwitch"));
  aipp_common *c = &aippParmsSet->common;
  c->csc = cscSwitch;
  memcpy(c->matrix,
         (int32_t[]){cscMatrixR0C0, cscMatrixR0C1, cscMatrixR0C2, cscMatrixR1C0, cscMatrixR1C1, cscMatrixR1C2,
                     cscMatrixR2C0, cscMatrixR2C1, cscMatrixR2C2},
         sizeof c->matrix);
  memcpy(c->out_bias, (int32_t[]){cscOutputBiasR0, cscOutputBiasR1, cscOutputBiasR2}, sizeof c->out_bias);
  memcpy(c->in_bias, (int32_t[]){cscInputBiasR0, cscInputBiasR1, cscInputBiasR2}, sizeof c->in_bias);
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPRbuvSwapSwitch(aclmdlAIPP *aippParmsSet, int8_t rbuvSwapSwitch) {
  API_ENTER();
  NEED(aippParmsSet);
  NEED_OK(aipp_expect_switch(rbuvSwapSwitch, "rbuvSwapSwitch"));
  aippParmsSet->common.swap_rb = rbuvSwapSwitch;
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPAxSwapSwitch(aclmdlAIPP *aippParmsSet, int8_t axSwapSwitch) {
  API_ENTER();
  NEED(aippParmsSet);
  NEED_OK(aipp_expect_switch(axSwapSwitch, "axSwapSwitch"));
  aippParmsSet->common.swap_ax = axSwapSwitch;
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPCropParams(aclmdlAIPP *aippParmsSet, int8_t cropSwitch, int32_t cropStartPosW,
                                 int32_t cropStartPosH, int32_t cropSizeW, int32_t cropSizeH, uint64_t batchIndex) {
  API_ENTER();
  aipp_picture *p;
  NEED(aippParmsSet);
  NEED_OK(picture_at(aippParmsSet, batchIndex, &p));
  NEED_OK(aipp_expect_switch(cropSwitch, "cropSwitch"));
  if (cropSwitch) {
    NEED_OK(aipp_expect_range(cropStartPosW, 0, 4095, "cropStartPosW"));
    NEED_OK(aipp_expect_range(cropStartPosH, 0, 4095, "cropStartPosH"));
    NEED_OK(aipp_expect_range(cropSizeW, 1, 4096, "cropSizeW"));
    NEED_OK(aipp_expect_range(cropSizeH, 1, 4096, "cropSizeH"));
  }
  p->crop = cropSwitch;
  p->crop_x = cropStartPosW, p->crop_y = cropStartPosH;
  p->crop_w = cropSizeW, p->crop_h = cropSizeH;
  return ACL_SUCCESS;
}

/* Pictures are not resized: the devices that are modelled do not do so either. */
aclError aclmdlSetAIPPScfParams(aclmdlAIPP *aippParmsSet, int8_t scfSwitch, int32_t scfInputSizeW,
                                int32_t scfInputSizeH, int32_t scfOutputSizeW, int32_t scfOutputSizeH,
                                uint64_t batchIndex) {
  API_ENTER();
  aipp_picture *p;
  NEED(aippParmsSet);
  NEED_OK(picture_at(aippParmsSet, batchIndex, &p));
  NEED_OK(aipp_expect_switch(scfSwitch, "scfSwitch"));
  if (!scfSwitch || (scfInputSizeW == scfOutputSizeW && scfInputSizeH == scfOutputSizeH)) return ACL_SUCCESS;
  API_RETURN(fail(ST_UNSUPPORTED, "pictures of %d x %d cannot be resized to %d x %d: AIPP here does not resize",
                  (int)scfInputSizeW, (int)scfInputSizeH, (int)scfOutputSizeW, (int)scfOutputSizeH));
}

aclError aclmdlSetAIPPPaddingParams(aclmdlAIPP *aippParmsSet, int8_t paddingSwitch, int32_t paddingSizeTop,
                                    int32_t paddingSizeBottom, int32_t paddingSizeLeft, int32_t paddingSizeRight,
                                    uint64_t batchIndex) {
  API_ENTER();
  aipp_picture *p;
  const int32_t sizes[] = {paddingSizeTop, paddingSizeBottom, paddingSizeLeft, paddingSizeRight};
  NEED(aippParmsSet);
  NEED_OK(picture_at(aippParmsSet, batchIndex, &p));
  NEED_OK(aipp_expect_switch(paddingSwitch, "paddingSwitch"));
  for (int i = 0; paddingSwitch && i < 4; ++i) NEED_OK(aipp_expect_range(sizes[i], 0, 32, "a padding"));
  p->padding = paddingSwitch;
  p->top = paddingSizeTop, p->bottom = paddingSizeBottom, p->left = paddingSizeLeft, p->right = paddingSizeRight;
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPDtcPixelMean(aclmdlAIPP *aippParmsSet, int16_t dtcPixelMeanChn0, int16_t dtcPixelMeanChn1,
                                   int16_t dtcPixelMeanChn2, int16_t dtcPixelMeanChn3, uint64_t batchIndex) {
  API_ENTER();
  aipp_picture *p;
  NEED(aippParmsSet);
  NEED_OK(picture_at(aippParmsSet, batchIndex, &p));
  memcpy(p->mean, (int32_t[]){dtcPixelMeanChn0, dtcPixelMeanChn1, dtcPixelMeanChn2, dtcPixelMeanChn3}, sizeof p->mean);
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPDtcPixelMin(aclmdlAIPP *aippParmsSet, float dtcPixelMinChn0, float dtcPixelMinChn1,
                                  float dtcPixelMinChn2, float dtcPixelMinChn3, uint64_t batchIndex) {
  API_ENTER();
  aipp_picture *p;
  NEED(aippParmsSet);
  NEED_OK(picture_at(aippParmsSet, batchIndex, &p));
  memcpy(p->min, (float[]){dtcPixelMinChn0, dtcPixelMinChn1, dtcPixelMinChn2, dtcPixelMinChn3}, sizeof p->min);
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPPixelVarReci(aclmdlAIPP *aippParmsSet, float dtcPixelVarReciChn0, float dtcPixelVarReciChn1,
                                   float dtcPixelVarReciChn2, float dtcPixelVarReciChn3, uint64_t batchIndex) {
  API_ENTER();
  aipp_picture *p;
  NEED(aippParmsSet);
  NEED_OK(picture_at(aippParmsSet, batchIndex, &p));
  memcpy(p->reciprocal, (float[]){dtcPixelVarReciChn0, dtcPixelVarReciChn1, dtcPixelVarReciChn2, dtcPixelVarReciChn3},
         sizeof p->reciprocal);
  return ACL_SUCCESS;
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* The AIPP of an input, or, where added is true, of the input that was added for its parameters; NULL: none. */
static const aipp_config *find_aipp(const model *m, size_t index, bool added) {
  int n;
  const aipp_config *c = model_aipp(m, &n);
  for (int k = 0; k < n; ++k)
    if (added ? c[k].dynamic && (size_t)model_aipp_parameters(m, &c[k]) == index : (size_t)c[k].input == index)
      return &c[k];
  return NULL;
}

static status no_aipp(size_t index) { return fail(ST_AIPP_NOT_THERE, "input %zu has no AIPP", index); }

/* Writes the parameters into the buffer of the added input, after checking that they fit the model in its gear. */
static status write_parameters(const model *m, uint32_t id, const aipp_config *c, const aclmdlDataset *d,
                               const aclmdlAIPP *a) {
  const size_t index = (size_t)model_aipp_parameters(m, c);
  const aipp_header head = {.magic = AIPP_MAGIC, .n = a->n, .common = a->common};
  void *view;
  int n, gear = 0;
  (void)model_inputs(m, &n);
  onnx_shape shapes[n]; /* a model has few inputs */
  if (model_gears_of(m)->kind) gear = d->gear_of == id ? d->gear : gears_largest(model_gears_of(m));
  model_gear_shapes(m, gear, shapes);
  const int64_t *dims = shapes[c->input].dims;
  for (uint64_t i = 0; i < a->n; ++i) TRY(aipp_check(&a->common, &a->pictures[i], dims[1], dims[2], dims[3]));
  if (index >= d->n || !d->entries[index].buffer->data)
    return fail(ST_AIPP_NOT_THERE, "the dataset has no buffer %zu, expected one for %s", index, MODEL_AIPP_INPUT);
  const aclDataBuffer *b = d->entries[index].buffer;
  if (b->size < aipp_bytes(a->n))
    return fail(ST_INVALID_PARAM, "the buffer of %s has %zu bytes, expected %zu", MODEL_AIPP_INPUT, b->size,
                aipp_bytes(a->n));
  TRY(memory_view(b->data, aipp_bytes(a->n), VMM_WRITE, MODEL_AIPP_INPUT, &view));
  memcpy(view, &head, sizeof head);
  memcpy((char *)view + sizeof head, a->pictures, (size_t)a->n * sizeof *a->pictures);
  return ST_OK;
}

aclError aclmdlSetInputAIPP(uint32_t modelId, aclmdlDataset *dataset, size_t index, const aclmdlAIPP *aippParmsSet) {
  API_ENTER();
  model *m;
  NEED(dataset);
  NEED(aippParmsSet);
  NEED_OK(mdl_find(modelId, &m));
  const aipp_config *c = find_aipp(m, index, true);
  const status st = c ? write_parameters(m, modelId, c, dataset, aippParmsSet) : no_aipp(index);
  model_unref(m);
  API_RETURN(st);
}

aclError aclmdlSetAIPPByInputIndex(uint32_t modelId, aclmdlDataset *dataset, size_t index,
                                   const aclmdlAIPP *aippParmsSet) {
  API_ENTER();
  model *m;
  NEED(dataset);
  NEED(aippParmsSet);
  NEED_OK(mdl_find(modelId, &m));
  const aipp_config *c = find_aipp(m, index, false);
  status st;
  if (!c)
    st = no_aipp(index);
  else if (!c->dynamic)
    st = fail(ST_AIPP_STATIC, "the AIPP of input %zu is static", index);
  else
    st = write_parameters(m, modelId, c, dataset, aippParmsSet);
  model_unref(m);
  API_RETURN(st);
}

static status aipp_type(const model *m, size_t index, aclmdlInputAippType *type, size_t *attached) {
  int n;
  (void)model_inputs(m, &n);
  if (index >= (size_t)n) return fail(ST_INVALID_PARAM, "index is %zu, expected less than the %d inputs", index, n);
  const aipp_config *c = find_aipp(m, index, false);
  *attached = UINT32_MAX;
  *type = find_aipp(m, index, true) ? ACL_DYNAMIC_AIPP_NODE : ACL_DATA_WITHOUT_AIPP;
  if (!c) return ST_OK;
  *type = c->dynamic ? ACL_DATA_WITH_DYNAMIC_AIPP : ACL_DATA_WITH_STATIC_AIPP;
  if (c->dynamic) *attached = (size_t)model_aipp_parameters(m, c);
  return ST_OK;
}

aclError aclmdlGetAippType(uint32_t modelId, size_t index, aclmdlInputAippType *type,
                           size_t *dynamicAttachedDataIndex) {
  API_ENTER();
  model *m;
  NEED(type);
  NEED(dynamicAttachedDataIndex);
  NEED_OK(mdl_find(modelId, &m));
  const status st = aipp_type(m, index, type, dynamicAttachedDataIndex);
  model_unref(m);
  API_RETURN(st);
}

static void fill_dims(aclmdlIODims *to, const char *name, const int64_t *dims) {
  strncpy(to->name, name, sizeof to->name - 1);
  to->dimCount = 4;
  memcpy(to->dims, dims, 4 * sizeof *dims);
}

static void fill_info(const model *m, const aipp_config *c, aclAippInfo *to) {
  const aipp_common *a = &c->common;
  const aipp_picture *p = &c->picture;
  int n;
  const model_port *in = model_inputs(m, &n) + c->input;
  onnx_shape shapes[n];
  model_gear_shapes(m, model_gears_of(m)->kind ? gears_largest(model_gears_of(m)) : 0, shapes);
  *to = (aclAippInfo){
      .srcFormat = ACL_FORMAT_NCHW, .srcDatatype = c->half ? ACL_FLOAT16 : ACL_FLOAT, .srcDimNum = 4, .shapeCount = 1};
  fill_dims(&to->outDims[0].srcDims, in->name, in->dims);
  fill_dims(&to->outDims[0].aippOutdims, in->name, shapes[c->input].dims);
  to->outDims[0].srcSize = in->bytes;
  to->outDims[0].aippOutSize = c->half ? 2 : 4;
  for (int d = 0; d < 4; ++d) to->outDims[0].aippOutSize *= (size_t)shapes[c->input].dims[d];
  if (c->dynamic) return;
  to->inputFormat = (aclAippInputFormat)a->format;
  to->srcImageSizeW = a->width, to->srcImageSizeH = a->height;
  to->cropSwitch = (int8_t)p->crop;
  to->loadStartPosW = p->crop_x, to->loadStartPosH = p->crop_y, to->cropSizeW = p->crop_w, to->cropSizeH = p->crop_h;
  to->paddingSwitch = (int8_t)p->padding;
  to->leftPaddingSize = p->left, to->rightPaddingSize = p->right;
  to->topPaddingSize = p->top, to->bottomPaddingSize = p->bottom;
  to->cscSwitch = (int8_t)a->csc, to->rbuvSwapSwitch = (int8_t)a->swap_rb, to->axSwapSwitch = (int8_t)a->swap_ax;
  memcpy(&to->matrixR0C0, a->matrix, sizeof a->matrix); /* nine members in a row, and so on */
  memcpy(&to->outputBias0, a->out_bias, sizeof a->out_bias);
  memcpy(&to->inputBias0, a->in_bias, sizeof a->in_bias);
  memcpy(&to->meanChn0, p->mean, sizeof p->mean);
  memcpy(&to->minChn0, p->min, sizeof p->min);
  memcpy(&to->varReciChn0, p->reciprocal, sizeof p->reciprocal);
}

aclError aclmdlGetFirstAippInfo(uint32_t modelId, size_t index, aclAippInfo *aippInfo) {
  API_ENTER();
  model *m;
  NEED(aippInfo);
  NEED_OK(mdl_find(modelId, &m));
  const aipp_config *c = find_aipp(m, index, false);
  if (c) fill_info(m, c, aippInfo);
  model_unref(m);
  API_RETURN(c ? ST_OK : no_aipp(index));
}
