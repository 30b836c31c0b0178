#include "tpubridge/aot/aot.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "tpubridge/aot/generations.h"
#include "tpubridge/aot/protocol.h"
#include "tpubridge/base/absolute.h"
#include "tpubridge/base/log.h"
#include "tpubridge/base/subprocess.h"
#include "tpubridge/pjrt/ffi.h"

namespace tpubridge::aot {
namespace {

// What a request becomes once it was found to make sense.
struct Job {
  const FitRequest* request = nullptr;
  Slice slice;
};

Job check(const FitRequest& request) {
  Job job{&request, parse_slice(request.tpu)};
  if (request.program.empty()) throw ArgumentError("the program to fit is empty");
  if (ffi::is_called_by(request.program))
    throw UnsupportedError(
        "the program calls C++ functions of the process that made it, which a TPU cannot call",
        {{"custom call", std::string(ffi::kTarget)}}, "Give these ops a lowering (docs/kernels.md).",
        Code::unsupported);
  if (request.replicas < 1 || request.partitions < 1)
    throw ArgumentError(fmt::format("a program needs at least one replica and one partition, not {} and {}",
                                    request.replicas, request.partitions));
  if (request.slices < 1 || request.slices > 1024)
    throw ArgumentError(fmt::format("there are no {} slices", request.slices));
  const int64_t devices = int64_t{request.replicas} * request.partitions;
  const int64_t there = int64_t{job.slice.devices()} * request.slices;
  if (devices > there)
    throw ArgumentError(
        fmt::format("{} replicas × {} partitions need {} devices, {}{} has {}", request.replicas,
                    request.partitions, devices,
                    request.slices > 1 ? fmt::format("{} × ", request.slices) : "", job.slice.name(), there),
        {}, fmt::format("Name a larger slice of {}", job.slice.generation->name));
  return job;
}

FitResult known_before(const Job& job) {
  FitResult out;
  out.tpu = job.slice.name();
  out.device_kind = job.slice.generation->device_kind;
  out.chips = job.slice.chips() * job.request->slices;
  out.devices = job.slice.devices() * job.request->slices;
  out.hbm_bytes = job.slice.generation->hbm_bytes;
  out.peak_flops = job.slice.generation->bf16_flops;
  return out;
}

// What a dying compiler said last: the line of its fatal check ("F1115 03:59:59.270518 16334 file.cc:9] …"),
// or the last line that says anything.
std::string last_words(std::string_view text) {
  std::string_view last;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto bracket = line.find("] ");
    const bool dated =
        line.size() > 5 && line[0] == 'F' &&
        std::all_of(line.begin() + 1, line.begin() + 5, [](char c) { return c >= '0' && c <= '9'; });
    if (dated && bracket != line.npos) {
      const auto file = line.rfind(' ', bracket);
      return std::string(line.substr(file + 1));
    }
    if (line.find_first_not_of(" \t\r") != line.npos) last = line;
  }
  return std::string(last);
}

FitResult crashed(FitResult out, const Outcome& end, std::string why = {}) {
  out.verdict = Verdict::crashed;
  out.status = Code::internal;
  if (why.empty()) why = last_words(end.err.empty() ? end.out : end.err);
  out.message = fmt::format("the TPU compiler {}{}{}", end.str(), why.empty() ? "" : ": ", why);
  if (end.end == Outcome::End::signalled && end.code == 9)
    out.hint = "Something killed it; the system does so when memory runs out";
  return out;
}

FitResult judge(const Job& job, const Outcome& end, const Path& answer) {
  FitResult out = known_before(job);
  if (end.end == Outcome::End::timed_out || end.end == Outcome::End::cancelled) {
    const bool late = end.end == Outcome::End::timed_out;
    out.verdict = late ? Verdict::timed_out : Verdict::cancelled;
    out.status = late ? Code::deadline_exceeded : Code::cancelled;
    out.message = fmt::format("the TPU compiler {}", end.str());
    if (late) out.hint = "Allow it more time";
    return out;
  }
  if (!end.ok()) {
    out = crashed(std::move(out), end);
    if (out.hint.empty() && job.request->program.find("tensor<?") != std::string::npos)
      out.hint = "The program has dynamic shapes (tensor<?…>), which this compiler cannot take";
    return out;
  }
  try {
    out = read_response(read_file(answer), std::move(out));
  } catch (const FileError&) {
    return crashed(known_before(job), end, "it left no answer");
  } catch (const ConfigurationError& e) {
    return crashed(known_before(job), end, e.message());
  }
  return out;
}

FitResult compile(const Job& job, const Path& child, const Path& libtpu, const FitControl& control) {
  const FitRequest& request = *job.request;
  const TempFolder folder("tpubridge-aot");
  const Path question = folder.path() / "request.json", answer = folder.path() / "response.json";
  ChildFiles files{folder.path() / "program.mlir", libtpu, {}};
  if (!request.executable.empty()) files.executable = absolute_path(request.executable);
  write_file(files.program, request.program);
  write_file(question, write_request(request, job.slice, files));

  Command command{child_command(child)};
  command.argv.insert(command.argv.end(), {question.string(), answer.string()});
  command.deadline = request.deadline;
  command.cancel = control.cancel;
  const Outcome end = run_command(command);
  FitResult out = judge(job, end, answer);
  if (out.compile_seconds > 0) out.executable = files.executable;
  log::info("aot.compiled", {{"tpu", out.tpu},
                             {"verdict", std::string(to_string(out.verdict))},
                             {"ms", std::to_string(end.elapsed.count())}});
  return out;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "fits";
    case Verdict::does_not_fit:
      return "does not fit";
    case Verdict::compile_error:
      return "compile error";
    case Verdict::crashed:
      return "compiler crashed";
    case Verdict::timed_out:
      return "timed out";
    default:
      return "cancelled";
  }
}

std::optional<double> FitResult::utilization() const {
  if (!optimal_seconds || peak_flops <= 0) return std::nullopt;
  return flops / *optimal_seconds / peak_flops;
}

FitResult fit(const FitRequest& request, const FitControl& control) {
  return fit(std::span(&request, 1), control).front();
}

std::vector<FitResult> fit(std::span<const FitRequest> requests, const FitControl& control) {
  std::vector<Job> jobs;
  for (const FitRequest& r : requests) jobs.push_back(check(r));
  if (jobs.empty()) return {};
  const Path child = child_program(), libtpu = libtpu_library();

  std::vector<FitResult> results(jobs.size());
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};  // an exception ends all
  std::mutex mutex;               // of progress and failure
  std::exception_ptr failure;
  const auto tell = [&](size_t i, Phase phase, const FitResult& r) {
    const std::lock_guard lock(mutex);
    if (control.progress) control.progress(i, phase, r);
  };
  const auto work = [&] {
    for (size_t i = next++; i < jobs.size() && !stop; i = next++) {
      results[i] = known_before(jobs[i]);
      results[i].verdict = Verdict::cancelled;
      if (control.cancel && *control.cancel) continue;
      try {
        tell(i, Phase::started, results[i]);
        results[i] = compile(jobs[i], child, libtpu, control);
        tell(i, Phase::finished, results[i]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        stop = true;
      }
    }
  };
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const size_t wanted = control.workers > 0 ? static_cast<size_t>(control.workers) : cores;
  {
    std::vector<std::jthread> pool;
    for (size_t i = 0; i < std::min(wanted, jobs.size()); ++i) pool.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
  return results;
}

}  // namespace tpubridge::aot
