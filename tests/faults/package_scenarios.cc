// A package written over another one: a disk that is full, a power cut.
#include "tests/faults/scenario.h"
#include "tpubridge/package/package.h"

namespace tpubridge::faults {
namespace {

class SavePackage : public Scenario {
 public:
  void prepare() override { write(1); }
  void act() override { write(2); }
  std::string look() override {
    try {
      const Armed no_waiting;
      const package::Package there(file_);
      const auto& weight = there.manifest().weights.at(0);
      const char version = there.bytes(weight.entry).at(0);
      return version == 2 ? "new" : version == 1 ? "old" : "wrong content";
    } catch (const Error& e) {
      return e.what();
    }
  }

 private:
  void write(char version) const {
    const std::vector<char> bytes(700, version);
    package::Contents c{"a test", {}, {}, {}};
    c.weights = {make_tensor("w", {DType::s8, {700}}, std::as_bytes(std::span(bytes)))};
    c.programs = {
        {{{"x", {DType::f32, {1}}}}, {{"y", {DType::f32, {1}}}}, {{true, 0}}, {{"any", "text", {}}}, {}}};
    package::write_package(file_, c);
  }
  const Path file_ = folder() / "model.tbp";
};

}  // namespace

std::vector<Named> package_scenarios() { return {{"PackageSave", make_scenario<SavePackage>}}; }

}  // namespace tpubridge::faults
