// `tpubridge completion SHELL`: prints a completion script, made from the command line's own description so
// that it can never miss an option.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "tools/commands.h"
#include "tools/output.h"

namespace tpubridge::tools {
namespace {

struct Choice {
  std::string word, help;
};

struct Commands {
  std::vector<Choice> names;
  std::vector<std::vector<Choice>> options;  // beside names; those of its own subcommands too
  std::vector<std::vector<Choice>> second;   // beside names: words that must follow it, where there are any
};

// A description in a line that no shell can trip over.
std::string plain(std::string text) {
  text = text.substr(0, text.find('\n'));
  std::erase_if(text,
                [](char c) { return c == '\'' || c == '"' || c == '`' || c == '[' || c == ']' || c == ':'; });
  return text;
}

bool all(const CLI::App*) { return true; }

void add_options(const CLI::App& app, std::vector<Choice>& to) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames())
      if (std::ranges::find(to, "--" + name, &Choice::word) == to.end())
        to.push_back({"--" + name, plain(option->get_description())});
  }
}

Commands describe(const CLI::App& root) {
  Commands out;
  for (const CLI::App* sub : root.get_subcommands(all)) {
    out.names.push_back({sub->get_name(), plain(sub->get_description())});
    auto& options = out.options.emplace_back();
    auto& second = out.second.emplace_back();
    add_options(*sub, options);
    for (const CLI::App* inner : sub->get_subcommands(all)) {
      second.push_back({inner->get_name(), plain(inner->get_description())});
      add_options(*inner, options);
    }
    if (sub->get_name() == "completion") second = {{"bash", ""}, {"zsh", ""}, {"fish", ""}};
  }
  return out;
}

std::string words(const std::vector<Choice>& choices) {
  std::string out;
  for (const Choice& c : choices) out += (out.empty() ? "" : " ") + c.word;
  return out;
}

std::string bash(const Commands& commands) {
  std::string cases;
  for (size_t i = 0; i < commands.names.size(); ++i)
    cases += fmt::format("    {}) options='{}' second='{}' ;;\n", commands.names[i].word,
                         words(commands.options[i]), words(commands.second[i]));
  return fmt::format(
      R"(# tpubridge completion for bash: add  source <(tpubridge completion bash)  to ~/.bashrc
_tpubridge() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} options= second=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  elif [[ -n $second ]] && ((COMP_CWORD == 2)); then
    COMPREPLY=($(compgen -W "$second" -- "$word"))
  else
    compopt -o filenames
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -F _tpubridge tpubridge
)",
      words(commands.names), cases);
}

std::string zsh(const Commands& commands) {
  std::string names, cases;
  for (size_t i = 0; i < commands.names.size(); ++i) {
    const Choice& c = commands.names[i];
    names += fmt::format("    '{}:{}'\n", c.word, c.help);
    cases += fmt::format("    {}) _arguments", c.word);
    for (const Choice& o : commands.options[i]) cases += fmt::format(" \\\n      '*{}[{}]'", o.word, o.help);
    if (!commands.second[i].empty())
      cases += fmt::format(" \\\n      '1:what:({})'", words(commands.second[i]));
    cases += " \\\n      '*:file:_files' ;;\n";
  }
  return fmt::format(R"(#compdef tpubridge
# tpubridge completion for zsh: add  source <(tpubridge completion zsh)  to ~/.zshrc, after compinit
_tpubridge() {{
  local -a commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
{}  esac
}}
compdef _tpubridge tpubridge
)",
                     names, cases);
}

std::string fish(const Commands& commands) {
  std::string out =
      "# tpubridge completion for fish: tpubridge completion fish > "
      "~/.config/fish/completions/tpubridge.fish\n"
      "complete -c tpubridge -n __fish_use_subcommand -f -l help -d 'Print the help'\n"
      "complete -c tpubridge -n __fish_use_subcommand -f -l version -d 'Print the versions'\n";
  for (size_t i = 0; i < commands.names.size(); ++i) {
    const Choice& c = commands.names[i];
    out += fmt::format("complete -c tpubridge -n __fish_use_subcommand -f -a {} -d '{}'\n", c.word, c.help);
    for (const Choice& o : commands.options[i])
      out += fmt::format("complete -c tpubridge -n '__fish_seen_subcommand_from {}' -l {} -d '{}'\n", c.word,
                         o.word.substr(2), o.help);
    if (commands.second[i].empty()) continue;
    const std::string choices = words(commands.second[i]);
    out += fmt::format(
        "complete -c tpubridge -n '__fish_seen_subcommand_from {}; and not __fish_seen_subcommand_from {}' "
        "-f "
        "-a '{}'\n",
        c.word, choices, choices);
  }
  return out;
}

}  // namespace

void add_completion(CLI::App& root, Invocation& call) {
  auto shell = std::make_shared<std::string>();
  CLI::App* app = root.add_subcommand("completion", "Print a shell's completion script");
  app->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app->footer(
      "Examples:\n"
      "  source <(tpubridge completion bash)\n"
      "  source <(tpubridge completion zsh)\n"
      "  tpubridge completion fish > ~/.config/fish/completions/tpubridge.fish");
  app->callback([shell, &root, &call] {
    call.body = [shell, &root] {
      const Commands commands = describe(root);
      print(*shell == "bash" ? bash(commands) : *shell == "zsh" ? zsh(commands) : fish(commands));
      return kOk;
    };
  });
}

}  // namespace tpubridge::tools
