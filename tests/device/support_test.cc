// The support table: docs/ops.md is what this test would write. Run it with TPUBRIDGE_WRITE_DOCS=1 to renew
// the file.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/device/check.h"
#include "tests/device/samples.h"
#include "tpubridge/device/kernels.h"
#include "tpubridge/device/ops.h"
#include "tpubridge/lower/table.h"

namespace tpubridge {
namespace {

struct Proof {
  std::set<char> types;
  bool gradient = false;
};

std::map<std::string, Proof> proofs() {
  std::map<std::string, Proof> out;
  for (const auto& s : all_samples()) {
    auto& p = out[s.row];
    p.types.insert(s.dtypes.begin(), s.dtypes.end());
    p.gradient |= s.gradient;
  }
  return out;
}

std::string type_names(const std::set<char>& types) {
  static const std::vector<std::pair<char, std::string>> names{{'f', "f32"}, {'d', "f64"},   {'b', "bf16"},
                                                               {'h', "f16"}, {'i', "int64"}, {'o', "bool"},
                                                               {'c', "c64"}, {'z', "c128"}};
  std::string out;
  for (const auto& [c, name] : names)
    if (types.count(c)) out += (out.empty() ? "" : " ") + name;
  return out;
}

bool is_view(const c10::FunctionSchema& s) {
  for (const auto& r : s.returns())
    if (r.alias_info() && !r.alias_info()->isWrite()) return true;
  return false;
}

std::string becomes(const c10::OperatorHandle& op, const std::string& name) {
  if (device::has_explicit_kernel(name)) return "kernel";
  if (is_view(op.schema())) return "view";
  const auto info = device::describe(op);
  const bool implicit = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  const bool composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd);
  if (info.traceable && !implicit && (!composite || (info.row->flags & lower::composite))) return "lowered";
  // Composites of other ops, unlike structured ops, have no Meta kernel of their own.
  const bool other = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) &&
                     !op.hasKernelForDispatchKey(c10::DispatchKey::Meta);
  return implicit || composite || other ? "composed" : "CPU";
}

// Layouts and libraries that this device has not: sparse and nested tensors, quantised ones, cuDNN's and
// others' own.
bool is_foreign(const c10::OperatorHandle& op, const std::string& name) {
  for (const char* word :
       {"sparse", "nested", "jagged", "quantize", "mkldnn", "cudnn", "miopen", "mkl_", "cslt", "mps_",
        "_cuda", "to_dense", "ccol_", "crow_", "_nnpack", "fbgemm", "fake_quant"})
    if (name.find(word) != name.npos) return true;
  return !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && becomes(op, name) == "CPU";
}

bool writes(const c10::FunctionSchema& s) {
  for (const auto& a : s.arguments())
    if (a.alias_info() && a.alias_info()->isWrite()) return true;
  return false;
}

using Kinds = std::map<std::string, std::vector<std::string>>;

void list_kinds(std::ostream& out, Kinds& kinds) {
  for (auto& [kind, names] : kinds) {
    std::sort(names.begin(), names.end());
    out << "**" << kind << "** (" << names.size() << "): ";
    for (size_t i = 0; i < names.size(); ++i) out << (i ? ", " : "") << "`" << names[i] << "`";
    out << "\n\n";
  }
}

std::string table() {
  std::ostringstream out;
  out << "# Ops of the device\nWritten by the test that proves it (tests/device/support_test.cc); do not "
         "edit.\n\n"
         "## Lowered ops\nEach was run against libtorch on the CPU with these element types; gradients too "
         "where it says so. Tolerances, relative\n"
         "and absolute: f32 2e-5, f64 1e-10, bf16 1.6e-2 (sums and products up to 8 times that), integers "
         "and bools exact.\n"
         "In-place and out= overloads use the same rows.\n\n| op | proven for | gradient |\n|---|---|---|\n";
  const auto all = proofs();
  for (const auto* row : lower::all_rows()) {
    const std::string name(row->name);
    const auto it = all.find(name);
    if (it != all.end())
      out << "| " << name << " | " << type_names(it->second.types) << " | "
          << (it->second.gradient ? "yes" : "") << " |\n";
    else if (name.find("_backward") != name.npos)
      out << "| " << name << " | by the gradients of its op | |\n";
  }
  Kinds core, others;
  for (const auto& n : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(n);
    if (!op || n.name.rfind("aten::", 0) != 0) continue;
    const std::string name = n.name.substr(6) + (n.overload_name.empty() ? "" : "." + n.overload_name);
    if (op->hasTag(at::Tag::core))
      core[becomes(*op, name)].push_back(name);
    else if (!writes(op->schema()) && op->schema().overload_name().rfind("dimname", 0) != 0)
      others[is_foreign(*op, name) ? "refused" : becomes(*op, name)].push_back(name);
  }
  out << "\n## The core ATen ops\nOf libtorch " << TORCH_VERSION << ". *lowered*: a row of the table above; "
      << "*composed*: torch makes it of other ops;\n*kernel*: one of ours in C++; *view*: another look at "
      << "the same memory; *CPU*: computed on the CPU, counted and warned\nof (`TPUBRIDGE_FALLBACK`).\n\n";
  list_kinds(out, core);
  out << "## All other ops\nIn-place and out= forms are as the op itself. *refused*: for layouts, element "
         "types "
      << "or libraries that the device has not\n(sparse, nested and quantised tensors): copy with `.cpu()` "
      << "first.\n\n";
  list_kinds(out, others);
  return out.str();
}

TEST(Support, EveryRowHasASample) {
  const auto all = proofs();
  // Random ops are proven by their distributions in behaviour_test.cc, optimizer steps in optimizer_test.cc;
  // ours by every test of views.
  const std::set<std::string> elsewhere{"log_normal_",
                                        "exponential_",
                                        "geometric_",
                                        "cauchy_",
                                        "uniform",
                                        "normal_",
                                        "bernoulli",
                                        "bernoulli_.float",
                                        "bernoulli_.Tensor",
                                        "random_",
                                        "random_.to",
                                        "random_.from",
                                        "native_dropout",
                                        "index_put",
                                        "_conj_physical",
                                        "multinomial",
                                        "poisson",
                                        "normal.Tensor_Tensor",
                                        "normal.Tensor_float",
                                        "normal.float_Tensor"};
  for (const auto* row : lower::all_rows()) {
    const std::string name(row->name);
    if (name.rfind("tpubridge::", 0) == 0 || name.find("_backward") != name.npos ||
        name.rfind("_fused_", 0) == 0 || name.rfind("_amp_", 0) == 0 || elsewhere.count(name))
      continue;
    EXPECT_TRUE(all.count(name)) << name << " has no sample";
  }
  for (const auto& [name, proof] : all) EXPECT_NE(lower::find(name), nullptr) << name << " is no row";
}

TEST(Support, TheTableInTheDocsIsUpToDate) {
  const std::string path = std::string(TEST_DATA) + "/../../docs/ops.md";
  if (std::getenv("TPUBRIDGE_WRITE_DOCS")) std::ofstream(path) << table();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().find(std::string("libtorch ") + TORCH_VERSION) == std::string::npos)
    GTEST_SKIP() << "the table is of another libtorch";
  const auto compared = [](const std::string& whole) {
#ifdef __x86_64__
    return whole;
#else  // which ops libtorch has a kernel for on the CPU is not the same everywhere
    return whole.substr(0, whole.find("## All other ops"));
#endif
  };
  EXPECT_EQ(compared(text.str()), compared(table()));
}

}  // namespace
}  // namespace tpubridge
