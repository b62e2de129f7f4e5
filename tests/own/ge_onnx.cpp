// SPDX-License-Identifier: Apache-2.0
// The functions of libfmk_onnx_parser.so, libge_compiler.so and libgraph.so, called as onnxruntime's provider does: the
// classes are declared here with the members that clients compile in.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "acl/acl.h"

namespace ge {
class AscendString {
public:
  AscendString() = default;
  AscendString(const char *text);
  bool operator<(const AscendString &other) const;

private:
  std::shared_ptr<std::string> text_;
};
class Graph {
public:
  explicit Graph(const char *name);

private:
  std::shared_ptr<void> impl_;
};
struct ModelBufferData {
  std::shared_ptr<uint8_t> data = nullptr;
  uint64_t length;
};
using options = std::map<AscendString, AscendString>;
uint32_t aclgrphBuildInitialize(options &);
void aclgrphBuildFinalize();
uint32_t aclgrphParseONNXFromMem(const char *, size_t, const options &, Graph &);
uint32_t aclgrphBuildModel(const Graph &, const options &, ModelBufferData &);
uint32_t aclgrphSaveModel(const char *, const ModelBufferData &);
} // namespace ge

extern "C" size_t ge_small_model(char *to);

static int failures;

static void check(bool good, const char *what, int line) {
  if (good) return;
  const char *message = aclGetRecentErrMsg();
  fprintf(stderr, "%s:%d: %s is false; message: %s\n", __FILE__, line, what, message ? message : "(none)");
  ++failures;
}
#define CHECK(expression) check((expression), #expression, __LINE__)

static bool message_has(const char *words) {
  const char *message = aclGetRecentErrMsg();
  return message && strstr(message, words);
}

static void strings() {
  const ge::AscendString a("a"), b("b"), none;
  CHECK(a < b && !(b < a) && !(a < a) && none < a && !(none < none));
  const ge::AscendString copy = b;
  CHECK(a < copy);
}

static void check_loaded(aclError error, const uint32_t &id) { // the reference: arguments have no order
  CHECK(error == ACL_SUCCESS);
  aclmdlDesc *d = aclmdlCreateDesc();
  CHECK(aclmdlGetDesc(d, id) == ACL_SUCCESS);
  CHECK(aclmdlGetNumInputs(d) == 1 && aclmdlGetNumOutputs(d) == 2);
  CHECK(aclmdlGetInputSizeByIndex(d, 0) == 3 * 2 * sizeof(float));
  CHECK(aclmdlGetOutputSizeByIndex(d, 0) == 3 * 3 * sizeof(float));
  CHECK(aclmdlDestroyDesc(d) == ACL_SUCCESS);
  CHECK(aclmdlUnload(id) == ACL_SUCCESS);
}

static void models(const std::string &folder) {
  char bytes[4096];
  const size_t n = ge_small_model(bytes);
  ge::options none, global{{"ge.socVersion", "Ascend910B3"}}, shape{{"input_shape", "x:3,2"}};
  ge::ModelBufferData model;
  uint32_t id = 0;
  CHECK(ge::aclgrphBuildInitialize(global) == 0);
  {
    ge::Graph graph("small");
    const ge::Graph other = graph; // shares what it has
    CHECK(ge::aclgrphParseONNXFromMem(bytes, n, none, graph) == 0);
    memset(bytes, 0, n); // the graph keeps a copy
    CHECK(ge::aclgrphBuildModel(other, shape, model) == 0);
  }
  check_loaded(aclmdlLoadFromMem(model.data.get(), model.length, &id), id);

  const std::string name = folder + "/model", path = name + ".om";
  for (int turn = 0; turn < 2; ++turn) { // the second one replaces the file
    CHECK(ge::aclgrphSaveModel(name.c_str(), model) == 0);
    check_loaded(aclmdlLoadFromFile(path.c_str(), &id), id);
  }
  CHECK(ge::aclgrphSaveModel(path.c_str(), model) == 0); // with .om in its name
  CHECK(unlink(path.c_str()) == 0);
  std::ofstream(path) << "somebody else's file";
  CHECK(ge::aclgrphSaveModel(name.c_str(), model) != 0);
  CHECK(message_has("no .om file"));
  CHECK(unlink(path.c_str()) == 0);
  CHECK(ge::aclgrphSaveModel((folder + "/missing/model").c_str(), model) != 0);
  ge::aclgrphBuildFinalize();
}

// Options that choose gears, outputs, their types and pictures have the meaning and the forms of atc's.
static void choices(const std::string &folder) {
  char bytes[4096];
  ge::options none;
  ge::Graph graph("small");
  ge::ModelBufferData model;
  aclmdlBatch batches;
  uint32_t id = 0;
  CHECK(ge::aclgrphParseONNXFromMem(bytes, ge_small_model(bytes), none, graph) == 0);

  ge::options gears{{"input_shape", "x:-1,2"}, {"ge.dynamicBatchSize", "1,4"}};
  CHECK(ge::aclgrphBuildModel(graph, gears, model) == 0);
  CHECK(aclmdlLoadFromMem(model.data.get(), model.length, &id) == ACL_SUCCESS);
  aclmdlDesc *d = aclmdlCreateDesc();
  CHECK(aclmdlGetDesc(d, id) == ACL_SUCCESS && aclmdlGetNumInputs(d) == 2);
  CHECK(aclmdlGetDynamicBatch(d, &batches) == ACL_SUCCESS);
  CHECK(batches.batchCount == 2 && batches.batch[0] == 1 && batches.batch[1] == 4);
  CHECK(aclmdlUnload(id) == ACL_SUCCESS);

  ge::options outputs{{"input_shape", "x:3,2"}, {"out_nodes", "product:0"}, {"output_type", "FP16"}};
  CHECK(ge::aclgrphBuildModel(graph, outputs, model) == 0);
  CHECK(aclmdlLoadFromMem(model.data.get(), model.length, &id) == ACL_SUCCESS);
  CHECK(aclmdlGetDesc(d, id) == ACL_SUCCESS && aclmdlGetNumOutputs(d) == 1);
  CHECK(!strncmp(aclmdlGetOutputNameByIndex(d, 0), "product:0", 9));
  CHECK(aclmdlGetOutputDataType(d, 0) == ACL_FLOAT16);
  CHECK(aclmdlUnload(id) == ACL_SUCCESS && aclmdlDestroyDesc(d) == ACL_SUCCESS);

  gears[ge::AscendString("ge.dynamicDims")] = "1;4";
  CHECK(ge::aclgrphBuildModel(graph, gears, model) != 0);
  CHECK(ge::aclgrphBuildModel(graph, {{"input_shape", "x:-1,2"}, {"ge.dynamicDims", "1;0"}}, model) != 0);
  CHECK(ge::aclgrphBuildModel(graph, {{"output_type", "FP8"}}, model) != 0);

  const std::string pictures = folder + "/aipp.cfg";
  CHECK(ge::aclgrphBuildModel(graph, {{"ge.insertOpFile", pictures.c_str()}}, model) != 0);
  std::ofstream(pictures) << "aipp_op {\n  input_format: RGB888_U8\n}\n";
  ge::options pixels{{"input_shape", "x:3,2"}, {"ge.insertOpFile", pictures.c_str()}};
  CHECK(ge::aclgrphBuildModel(graph, pixels, model) != 0); // the file is read; the input is no picture
  CHECK(message_has("has another shape than 4 known dimensions"));
  CHECK(unlink(pictures.c_str()) == 0);
}

static void errors() {
  ge::options none;
  ge::Graph graph("wrong");
  ge::ModelBufferData model;
  CHECK(ge::aclgrphParseONNXFromMem(nullptr, 0, none, graph) != 0);
  CHECK(ge::aclgrphParseONNXFromMem("nonsense", 8, none, graph) == 0); // read when it is built
  CHECK(ge::aclgrphBuildModel(graph, none, model) != 0);
  CHECK(aclGetRecentErrMsg() != nullptr);
  char bytes[4096];
  CHECK(ge::aclgrphParseONNXFromMem(bytes, ge_small_model(bytes), none, graph) == 0);
  for (const char *wrong : {"x", "x:a", "y:3,2", "x:3,2,1"})
    CHECK(ge::aclgrphBuildModel(graph, {{"input_shape", wrong}}, model) != 0);
  for (const char *range : {"input_shape", "input_shape_range"})
    CHECK(ge::aclgrphBuildModel(graph, {{range, "x:[1~2,2]"}, {"input_fp16_nodes", "x"}}, model) == 0);
  CHECK(ge::aclgrphBuildModel(graph, {{"input_shape_range", "x:2~1,2"}}, model) != 0);
  CHECK(ge::aclgrphBuildModel(graph, {{"input_fp16_nodes", "q"}}, model) != 0);
  CHECK(ge::aclgrphSaveModel("nothing", ge::ModelBufferData()) != 0);
}

int main() {
  char folder[] = "/tmp/cannon-ge-XXXXXX";
  if (!mkdtemp(folder) || aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) return 2;
  strings();
  models(folder);
  choices(folder);
  errors();
  CHECK(rmdir(folder) == 0);
  CHECK(aclrtResetDevice(0) == ACL_SUCCESS && aclFinalize() == ACL_SUCCESS);
  return failures != 0;
}
