/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for the capture of streams, and for the model instances (graphs) that a capture makes. */
#include "runtime/graph/capture.h"

#include "api/api.h"
#include "runtime/context.h"
#include "runtime/device.h"

_Static_assert((int)ACL_MODEL_RI_CAPTURE_MODE_GLOBAL == CAPTURE_GLOBAL &&
                   (int)ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL == CAPTURE_THREAD_LOCAL &&
                   (int)ACL_MODEL_RI_CAPTURE_MODE_RELAXED == CAPTURE_RELAXED &&
                   (int)ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE == CAPTURE_ACTIVE &&
                   (int)ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED == CAPTURE_INVALIDATED,
               "a cast will do");

static status check_mode(int mode) {
  if (mode >= 0 && mode < N_CAPTURE_MODES) return ST_OK;
  return fail(ST_INVALID_PARAM, "mode is %d, expected 0 (global), 1 (thread local) or 2 (relaxed)", mode);
}

/* Looks up the graph and takes a reference to it, which the caller drops (HELD_GRAPH). */
static status graph_of(aclmdlRI handle, graph **out) {
  TRY(device_check_child());
  *out = object_acquire(OBJECT_GRAPH, handle);
  return *out ? ST_OK : fail(ST_INVALID_VALUE, "modelRI %p is no instance (destroyed?)", handle);
}

/* ---- capture ----------------------------------------------------------------------------------------------------- */

aclError aclmdlRICaptureBegin(aclrtStream handle, aclmdlRICaptureMode mode) {
  API_ENTER();
  stream *s;
  NEED_OK(check_mode((int)mode));
  NEED_OK(context_stream(handle, &s));
  API_RETURN(capture_begin(s, (capture_mode)mode));
}

aclError aclmdlRICaptureEnd(aclrtStream handle, aclmdlRI *modelRI) {
  API_ENTER();
  stream *s;
  graph *g = NULL;
  NEED(modelRI);
  NEED_OK(context_stream(handle, &s));
  const status st = capture_end(s, &g);
  if (st != ST_STREAM_NOT_CAPTURED && st != ST_CAPTURE_UNMATCHED && st != ST_CAPTURE_THREAD) *modelRI = g;
  API_RETURN(st);
}

aclError aclmdlRICaptureGetInfo(aclrtStream handle, aclmdlRICaptureStatus *status, aclmdlRI *modelRI) {
  API_ENTER();
  stream *s;
  graph *g;
  if (!status && !modelRI)
    API_RETURN(fail(ST_INVALID_PARAM, "status and modelRI are NULL, expected a pointer in one of them"));
  NEED_OK(context_stream(handle, &s));
  const capture_status found = capture_info(s, &g);
  if (status) *status = (aclmdlRICaptureStatus)found;
  if (modelRI) *modelRI = g;
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode) {
  API_ENTER();
  NEED(mode);
  NEED_OK(check_mode((int)*mode));
  capture_mode exchanged = (capture_mode)*mode;
  NEED_OK(capture_exchange_mode(&exchanged));
  *mode = (aclmdlRICaptureMode)exchanged;
  return ACL_SUCCESS;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED_OK(context_stream(handle, &s));
  API_RETURN(capture_group_begin(s));
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream_handle, aclrtTaskGrp *handle) {
  API_ENTER();
  stream *s;
  graph_group *group = NULL;
  NEED(handle);
  NEED_OK(context_stream(stream_handle, &s));
  NEED_OK(capture_group_end(s, &group));
  *handle = group;
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream_handle, aclrtTaskGrp handle) {
  API_ENTER();
  stream *s;
  NEED(handle);
  NEED_OK(context_stream(stream_handle, &s));
  HELD_GROUP group = object_acquire(OBJECT_GROUP, handle);
  if (!group) API_RETURN(fail(ST_INVALID_VALUE, "handle %p is no group of tasks (of a destroyed instance?)", handle));
  API_RETURN(graph_update_begin(group, s));
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED_OK(context_stream(handle, &s));
  API_RETURN(graph_update_end(s));
}

/* ---- instances --------------------------------------------------------------------------------------------------- */

aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream handle) {
  API_ENTER();
  HELD_GRAPH g = NULL;
  stream *s;
  NEED(modelRI);
  NEED_OK(graph_of(modelRI, &g));
  NEED_OK(context_stream(handle, &s));
  NEED_OK(capture_refuse_stream(s));
  API_RETURN(graph_execute(g, s));
}

aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout) {
  API_ENTER();
  HELD_GRAPH g = NULL;
  uint64_t ns;
  NEED(modelRI);
  NEED_OK(api_timeout_ns(timeout, &ns));
  NEED_OK(graph_of(modelRI, &g));
  API_RETURN(graph_execute_alone(g, ns));
}

aclError aclmdlRIDebugPrint(aclmdlRI modelRI) {
  API_ENTER();
  HELD_GRAPH g = NULL;
  NEED(modelRI);
  NEED_OK(graph_of(modelRI, &g));
  API_RETURN(graph_print(g, stdout));
}

aclError aclmdlRIDestroy(aclmdlRI modelRI) {
  API_ENTER();
  HELD_GRAPH g = NULL;
  NEED(modelRI);
  NEED_OK(graph_of(modelRI, &g));
  API_RETURN(graph_destroy(g));
}
