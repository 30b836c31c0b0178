#include "tools/untrusted.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/version.h"
#include "tpubridge/base/confine.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/hash.h"
#include "tpubridge/base/log.h"
#include "tpubridge/base/private_files.h"
#include "tpubridge/base/subprocess.h"
#include "tpubridge/base/text.h"
#include "tpubridge/cache/disk.h"
#include "tpubridge/cache/key.h"
#include "tpubridge/capi/opcodes.h"

namespace tpubridge::tools {
namespace {

constexpr std::chrono::minutes kMostTime{30};
constexpr const char* kHint =
    "It is damaged, or asks for what this plugin cannot do: try another with --plugin. With --trusted it is "
    "not checked, and ends this process the same way.";

// Everything that decides how the compiler takes it.
Hash128 identity(const Suspect& suspect, const std::string& plugin, const std::vector<std::string>& options) {
  Hasher hasher;
  hasher.add_field(suspect.digest).add_field(plugin).add_field(cache::file_digest(plugin));
  hasher.add_field(kVersion).add_field(kCommit);
  for (const auto& word : options) hasher.add_field(word);
  for (const char* name : {"XLA_FLAGS", "LIBTPU_INIT_ARGS", "PJRT_NPROC"})
    hasher.add_field(env::raw(name).value_or(""));
  return hasher.digest();
}

[[noreturn]] void refuse(const Suspect& program, const Outcome& outcome) {
  if (const std::string call = refused_call(outcome.err); outcome.code == SIGSYS && !call.empty())
    throw ProgramError(
        fmt::format("{}: the program made its compiler do what no compiler needs: the system call {}",
                    program.path.string(), call),
        {{"file", program.path.string()}, {"call", call}},
        "Do not trust this file: ask whoever gave it to you.", Code::permission_denied);
  // The last words are often XLA's reason.
  std::string last = outcome.err.substr(0, outcome.err.find_last_not_of('\n') + 1);
  last = last.substr(last.rfind('\n') == last.npos ? 0 : last.rfind('\n') + 1);
  Details details = {{"file", program.path.string()}};
  if (!last.empty()) details.emplace_back("last_words", last.substr(0, 500));
  throw ProgramError(fmt::format("{}: the process that compiled it {}", program.path.string(), outcome.str()),
                     std::move(details), kHint,
                     outcome.end == Outcome::End::timed_out ? Code::deadline_exceeded : Code::internal);
}

[[noreturn]] void would_wait(const Path& path, const std::string& op) {
  throw ProgramError(fmt::format("{}: the program would wait for ever: it has the op {}", path.string(), op),
                     {{"file", path.string()}, {"op", op}},
                     "Nobody is at the other end: take the op out, or use --trusted.", Code::unsupported);
}

}  // namespace

void refuse_waiting(const Path& path, std::string_view code, bool text) {
  const std::string nothing(1, '\0');  // stands around names in bytecode; portable artifacts add a version
  for (const std::string op : {"infeed", "outfeed", "recv", "send"}) {
    const std::string in_text = "stablehlo." + op;
    const auto holds = [&](const std::string& word) { return code.find(word) != code.npos; };
    if (text ? !holds(in_text + "\"") && !holds(in_text + " ")
             : !holds(nothing + op + nothing) && !holds(nothing + op + "_v"))
      continue;
    would_wait(path, in_text);
  }
}

void refuse_waiting(const Path& path, const pjrt::LoadedExecutable& compiled) {
  std::set<std::string> ops;
  try {
    const pjrt::Program program = compiled.info().optimized_program();
    ops = pjrt::hlo_opcodes(program.code, program.format);
  } catch (const UnsupportedError&) {
    return;  // this plugin does not tell
  }
  for (const char* op : {"infeed", "outfeed", "recv", "send"})
    if (ops.contains(op)) would_wait(path, std::string("stablehlo.") + op);
}

Check check_in_child(const Suspect& program, const std::string& plugin,
                     const std::vector<std::string>& options, bool json) {
  const Hash128 key = identity(program, plugin, options);
  const auto disk = cache::DiskCache::from_environment();
  if (disk && disk->was_checked(key)) return {};

  Command command;
  command.argv = {std::filesystem::read_symlink("/proc/self/exe").string(), "run", "--check"};
  command.argv.insert(command.argv.end(), options.begin(), options.end());
  if (json) command.argv.emplace_back("--json");
  command.argv.insert(command.argv.end(), {"--", program.path.string()});
  command.deadline = kMostTime;
  command.max_output = 64 << 20;  // a compiler may repeat a line of a program, however long
  command.cancel = NoInterrupts::requested();
  const NoInterrupts hold;  // ends this process where one came, after the child's end
  const Outcome outcome = run_command(command);
  if (outcome.end == Outcome::End::cancelled) return {kInterrupted};
  if (outcome.end != Outcome::End::exited) refuse(program, outcome);
  if (outcome.code != kOk) {
    // A compiler repeats what stands in the file.
    const std::string err = printable(outcome.err), out = printable(outcome.out);
    std::fwrite(err.data(), 1, err.size(), stderr);
    std::fwrite(out.data(), 1, out.size(), stdout);
    return {outcome.code};
  }
  const auto start = outcome.out.rfind("\n{") == std::string::npos ? 0 : outcome.out.rfind("\n{") + 1;
  const auto said = nlohmann::json::parse(outcome.out.substr(start), nullptr, false);
  if (!said.is_object() || said.value("program", "") != program.digest)
    throw ProgramError(fmt::format("{}: the file changed while it was read", program.path.string()),
                       {{"file", program.path.string()}}, "Run it again.", Code::aborted);
  if (disk) disk->note_checked(key);
  Check out;
  if (const auto& seconds = said["compile_s"]; seconds.is_number()) out.compile_s = seconds.get<double>();
  return out;
}

void confine_files() {
  if (env::raw("XLA_FLAGS").value_or("").find("_dump_") != std::string::npos) return;  // files for the user
  std::vector<Path> folders;
  try {
    if (const auto disk = cache::DiskCache::from_environment()) {
      make_private_folder(disk->folder());
      folders.push_back(cache_folder());
    }
  } catch (const FileError&) {  // whoever writes there tells
  }
  if (!write_only_below(folders)) log::info("untrusted.unconfined", {{"missing", "Landlock"}});
}

void confine_calls() {
  if (!forbid_system_calls()) log::info("untrusted.unconfined", {{"missing", "seccomp"}});
}

void print_checked(const std::string& digest, std::optional<double> compile_s) {
  nlohmann::ordered_json out = {{"program", digest}, {"compile_s", nullptr}};
  if (compile_s) out["compile_s"] = *compile_s;
  print_json(out);
}

}  // namespace tpubridge::tools
