#include "tools/fit/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/fit/search.h"
#include "tools/fit/store.h"
#include "tools/fit/watch.h"
#include "tools/hand_over.h"
#include "tools/version.h"
#include "tpubridge/aot/generations.h"
#include "tpubridge/base/absolute.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/subprocess.h"
#include "tpubridge/base/text.h"
#include "tpubridge/cache/key.h"

namespace tpubridge::tools {
namespace {

constexpr int64_t kNoBatch = 0;  // the model's own

// A file of weights need not be read: of a folder config.json says all that counts.
std::string identity_of(const Path& model) {
  if (std::filesystem::is_directory(model)) return "folder\n" + read_file(model / "config.json");
  std::error_code failed;
  const auto time = std::filesystem::last_write_time(model, failed).time_since_epoch().count();
  return fmt::format("file\n{}\n{}", cache::file_digest(model.string()), time);
}

// The exception that the other process told of.
[[noreturn]] void rethrow(const JsonReader& error) {
  Details details;
  if (error.has("details"))
    for (const JsonReader& d : error.objects("details")) details.emplace_back(d.text("key"), d.text("value"));
  const std::string type = error.text("type"), message = error.text("message"), hint = error.text("hint", "");
  const auto code = static_cast<Code>(std::clamp<int64_t>(error.integer("code", 0), 0, 16));
  if (type == "ArgumentError") throw ArgumentError(message, details, hint, code);
  if (type.find("FileError") != type.npos) throw FileError(message, details, hint, code);
  if (type == "UnsupportedError") throw UnsupportedError(message, details, hint, code);
  if (type.find("ConfigurationError") != type.npos) throw ConfigurationError(message, details, hint, code);
  if (type == "TPUDistributedError") throw ArgumentError(message, details, hint, code);
  if (type == "PluginError") throw PluginError(message, details, hint, code);
  throw ProgramError(message, details, hint, code);
}

// Beside this program.
Path planner_program() {
  std::error_code failed;
  const Path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const Path program = self.parent_path() / "tpubridge-plan";
  if (failed || !std::filesystem::exists(program, failed))
    throw UnsupportedError(
        "this tpubridge cannot plan models of torch: the program tpubridge-plan is not beside it",
        {{"path", program.string()}},
        "Build tpubridge with torch (setup/deps gets it), or give fit a StableHLO program.",
        Code::unsupported);
  return program;
}

// What makes programs of a model, and what asks the compiler: a commit does not tell of edits, nor of a build
// outside of a checkout.
std::string build_identity() {
  std::error_code failed;
  const Path bin = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  const Path lib = bin.parent_path() / "lib";
  const std::string so = fmt::format(".so.{}", kVersion.substr(0, kVersion.find('.')));
  std::string out = fmt::format("{} {}", kVersion, kCommit);
  for (const Path& file : {bin / "tpubridge-plan", lib / ("libtpubridge" + so),
                           lib / ("libtpubridge_core" + so), aot::child_program()}) {
    const auto size = std::filesystem::file_size(file, failed);
    if (failed) continue;
    const auto time = std::filesystem::last_write_time(file, failed).time_since_epoch().count();
    out += fmt::format("\n{} {} {}", file.filename().string(), size, time);
  }
  return out;
}

// An interrupted search ends without a result; what was compiled is stored.
struct Interrupted {};

class Planning {
 public:
  explicit Planning(const FitModelOptions& options)
      : options_(options), store_(options.fresh), progress_(0, options.progress) {
    for (const auto& tpu : options.tpus) {
      const std::string name = aot::parse_slice(tpu).name();
      if (std::ranges::find(out_.targets, name, &FitTarget::tpu) == out_.targets.end())
        out_.targets.push_back({name, {}});
    }
    out_.options = options;
    check_devices();
    identity_ = identity_of(options.plan.model);                   // first what is wrong with the model
    libtpu_ = cache::file_digest(aot::libtpu_library().string());  // throws what says how to get it
    build_ = build_identity();
  }

  FitPlan run() {
    try {
      if (options_.any_batch)
        search();
      else
        compile(all_targets(), options_.plan.batches.empty() ? std::vector{kNoBatch} : options_.plan.batches);
    } catch (const Interrupted&) {
    }
    for (auto& t : out_.targets)
      std::ranges::sort(t.points, {}, [](const FitPoint& p) { return p.program.batch; });
    return std::move(out_);
  }

 private:
  struct Wanted {
    FitTarget* target;
    int64_t batch;
  };

  [[nodiscard]] int64_t devices() const {
    int64_t n = 1;
    for (const auto& [name, size] : options_.plan.mesh)
      if (__builtin_mul_overflow(n, std::max<int64_t>(size, 1), &n) || n > 1 << 20) return 1 << 20;
    return n;
  }

  void check_devices() const {
    if (options_.plan.mesh.empty() && options_.slices == 1) return;
    for (const auto& t : out_.targets) {
      const int64_t there = int64_t{aot::parse_slice(t.tpu).devices()} * options_.slices;
      if (devices() == there) continue;
      throw ArgumentError(
          fmt::format("the mesh has {} devices, {}{} has {}", devices(),
                      options_.slices > 1 ? fmt::format("{} × ", options_.slices) : "", t.tpu, there),
          {{"tpu", t.tpu}}, "Name a slice with as many devices as the mesh.", Code::invalid_argument);
    }
  }

  std::vector<FitTarget*> all_targets() {
    std::vector<FitTarget*> out;
    for (auto& t : out_.targets) out.push_back(&t);
    return out;
  }

  // ---------------------------------------------------------------- traces

  [[nodiscard]] Hash128 trace_key(int64_t batch) const {
    PlanOptions o = options_.plan;
    o.model.clear();
    o.batches = {batch};
    o.in_range = false;
    Hasher h;
    h.add_field("fit trace 2").add_field(build_).add_field(identity_);
    return h.add_field(to_json(o).dump()).digest();
  }

  void take(const PlannedModel& model, int64_t asked) {
    if (out_.model.kind.empty()) {
      out_.model = model;
      out_.model.programs.clear();
    }
    for (const auto& p : model.programs) {
      programs_[p.batch] = p;
      PlannedModel one = model;
      one.programs = {p};
      store_.keep(trace_key(p.batch), one);
      if (asked == kNoBatch) programs_[kNoBatch] = p, store_.keep(trace_key(kNoBatch), one);
    }
  }

  // Programs of these batches, of before where they are known. `whole`: with their text.
  void trace(const std::vector<int64_t>& batches, bool whole, bool in_range = false) {
    std::vector<int64_t> missing;
    for (const int64_t b : batches) {
      if (!programs_.contains(b) && !options_.fresh)
        if (const auto known = store_.trace(trace_key(b))) {
          if (out_.model.kind.empty()) out_.model = *known, out_.model.programs.clear();
          programs_[b] = known->programs[0];
          programs_[known->programs[0].batch] = known->programs[0];
        }
      const bool known = programs_.contains(b);
      if (!known || (whole && !texts_.contains(programs_[b].hash))) missing.push_back(b);
    }
    if (!missing.empty()) ask_planner(missing, in_range);
  }

  void ask_planner(const std::vector<int64_t>& batches, bool in_range) {
    progress_.doing("tracing " + Path(options_.plan.model).filename().string());
    const TempFolder folder("tpubridge-fit");
    const Path question = folder.path() / "request.json", answer = folder.path() / "answer.json";
    PlanOptions o = options_.plan;
    o.model = absolute_path(o.model).string();
    o.batches = batches;
    std::erase(o.batches, kNoBatch);
    o.in_range = in_range;
    write_file(question, to_json(o).dump());
    Command command{{planner_program().string(), question.string(), answer.string()}};
    command.cancel = &CancelOnInterrupt::cancelled();
    // Nothing runs there, so the plugin that is always there will do; a TPU or GPU may be in use.
    command.environment = {{"TPUBRIDGE_PLUGIN", "cpu"}, {"TPUBRIDGE_CPU_DEVICES", "1"}};
    if (const auto folders = library_path_with_torch())
      command.environment.emplace_back("LD_LIBRARY_PATH", *folders);
    const Outcome end = run_command(command);
    progress_.doing("");
    if (end.end == Outcome::End::cancelled) throw Interrupted();
    if (!end.ok()) {
      const auto last = end.err.substr(0, end.err.find_last_not_of('\n') + 1);
      throw ProgramError(
          fmt::format("the process that traces the model {}", end.str()),
          {{"last_words", last.substr(last.size() > 500 ? last.size() - 500 : 0)}},
          end.end == Outcome::End::signalled && end.code == SIGKILL ? "It may have run out of memory." : "");
    }
    const JsonReader said = JsonReader::of_file(answer);
    if (said.has("error")) rethrow(said.object("error"));
    const PlannedModel model = read_planned_model(said);
    take(model, o.batches.empty() ? kNoBatch : -1);
    for (const auto& p : model.programs) texts_[p.hash] = read_file(folder.path() / (p.hash + ".mlir"));
    out_.traced += model.programs.size();
  }

  // ---------------------------------------------------------------- results

  [[nodiscard]] Hash128 result_key(const PlannedProgram& program, const std::string& tpu) const {
    Hasher h;
    h.add_field("fit result 2").add_field(build_).add_field(program.hash).add_field(tpu).add_field(libtpu_);
    h.add_field(fmt::format("{} {}", options_.slices, program.partitions));
    h.add_field(env::raw("LIBTPU_INIT_ARGS").value_or(""));
    return h.digest();
  }

  static void add(FitTarget& target, FitPoint point) {
    const auto same = [&](const FitPoint& p) { return p.program.batch == point.program.batch; };
    if (std::ranges::none_of(target.points, same)) target.points.push_back(std::move(point));
  }

  void compile(const std::vector<FitTarget*>& targets, const std::vector<int64_t>& batches) {
    std::vector<Wanted> all;
    for (auto* t : targets)
      for (const int64_t b : batches) all.push_back({t, b});
    compile(all);
  }

  void compile(const std::vector<Wanted>& all) {
    std::vector<int64_t> batches;
    for (const auto& w : all)
      if (std::ranges::find(batches, w.batch) == batches.end()) batches.push_back(w.batch);
    trace(batches, /*whole=*/false);
    std::vector<Wanted> missing;
    batches.clear();
    for (const auto& w : all) {
      const PlannedProgram& p = programs_.at(w.batch);
      auto known = options_.fresh ? std::nullopt : store_.result(result_key(p, w.target->tpu));
      if (known && known->tpu == w.target->tpu) {
        add(*w.target, {p, std::move(*known), true});
        ++out_.stored;
        continue;
      }
      missing.push_back(w);
      if (std::ranges::find(batches, w.batch) == batches.end()) batches.push_back(w.batch);
    }
    if (missing.empty()) return;
    trace(batches, /*whole=*/true);
    run(missing);
  }

  void run(const std::vector<Wanted>& missing) {
    std::vector<aot::FitRequest> requests;
    for (const auto& w : missing) {
      const PlannedProgram& p = programs_.at(w.batch);
      aot::FitRequest r{.program = texts_.at(p.hash), .tpu = w.target->tpu};
      r.partitions = static_cast<int>(p.partitions);
      r.shardy = p.partitions > 1;
      r.slices = options_.slices;
      r.deadline = std::chrono::milliseconds(static_cast<int64_t>(options_.timeout * 1000));
      requests.push_back(std::move(r));
    }
    progress_.add(requests.size());
    aot::FitControl control{.workers = options_.jobs, .cancel = &CancelOnInterrupt::cancelled()};
    control.progress = [&](size_t i, aot::Phase phase, const aot::FitResult& r) {
      const PlannedProgram& p = programs_.at(missing[i].batch);
      progress_.see(phase, fmt::format("{} batch {}", r.tpu, p.batch));
      if (phase == aot::Phase::finished) store_.keep(result_key(p, missing[i].target->tpu), r);
    };
    const auto results = aot::fit(requests, control);
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].compile_seconds > 0 || results[i].verdict != aot::Verdict::cancelled) ++out_.compiled;
      add(*missing[i].target, {programs_.at(missing[i].batch), results[i], false});
    }
    if (CancelOnInterrupt::cancelled()) throw Interrupted();
  }

  // ---------------------------------------------------------------- the search

  [[nodiscard]] BatchRange range() const {
    int64_t step = 1;
    for (const auto& [name, size] : options_.plan.mesh)
      if (name != "model") step *= size;
    return {out_.model.least_batch, out_.model.most_batch, step};
  }

  void search() {
    // The range of an export is known once it was opened.
    if (programs_.empty()) trace({kNoBatch}, /*whole=*/false);
    if (!out_.model.any_batch)
      throw ArgumentError(
          fmt::format("the model was exported for a batch of {} alone: there is none to look for",
                      out_.model.least_batch),
          {}, "Leave --batch auto out, or export it with a dynamic first dimension (torch.export.Dim).",
          Code::invalid_argument);
    const BatchRange all = range();
    if (all.most / all.step * all.step < all.least)
      throw ArgumentError(
          fmt::format("no batch from {} to {} is a multiple of {}, what the mesh splits it into", all.least,
                      all.most, all.step));
    while (true) {
      std::vector<Wanted> wanted;
      for (auto& t : out_.targets) {
        if (t.failed()) continue;
        std::vector<Probe> known;
        int64_t hbm = aot::parse_slice(t.tpu).generation->hbm_bytes;
        for (const FitPoint& p : t.points) {
          known.push_back({p.program.batch, p.result.verdict == aot::Verdict::fits, p.result.needed});
          if (p.result.hbm_bytes > 0) hbm = p.result.hbm_bytes;
        }
        for (const int64_t b : next_batches(known, all, hbm)) wanted.push_back({&t, b});
      }
      if (wanted.empty()) return;
      compile(wanted);
    }
  }

  const FitModelOptions& options_;
  FitStore store_;
  FitPlan out_;
  std::string libtpu_, identity_, build_;
  std::map<int64_t, PlannedProgram> programs_;  // by batch
  std::map<std::string, std::string> texts_;    // by hash
  Progress progress_;
};

bool fits(const FitPoint& p) { return p.result.verdict == aot::Verdict::fits; }

}  // namespace

const FitPoint* FitTarget::largest() const {
  const FitPoint* out = nullptr;
  for (const auto& p : points)
    if (fits(p) && (!out || p.program.batch > out->program.batch)) out = &p;
  return out;
}
const FitPoint* FitTarget::fastest() const {
  const FitPoint* out = nullptr;
  const auto each = [](const FitPoint& p) {
    return *p.result.optimal_seconds / static_cast<double>(p.program.batch);
  };
  for (const auto& p : points)
    if (fits(p) && p.result.optimal_seconds && (!out || each(p) < each(*out))) out = &p;
  return out;
}
const FitPoint* FitTarget::too_large() const {
  const FitPoint* out = nullptr;
  for (const auto& p : points)
    if (p.result.verdict == aot::Verdict::does_not_fit && (!out || p.program.batch < out->program.batch))
      out = &p;
  return out;
}
const FitPoint* FitTarget::failed() const {
  for (const auto& p : points)
    if (!fits(p) && p.result.verdict != aot::Verdict::does_not_fit) return &p;
  return nullptr;
}

FitPlan fit_model(const FitModelOptions& options) {
  const CancelOnInterrupt guard;
  return Planning(options).run();
}

}  // namespace tpubridge::tools
