// A case as a program, nearly C++: what somebody needs to write it down as a test.
#include <array>
#include <sstream>

#include "tests/step/fuzz.h"

namespace tpubridge::fuzz {
namespace {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// "{w}" and "{v}" are the act's two numbers.
std::string text_of(const Act& a, std::string t) {
  for (const auto& [name, value] : {std::pair{"{w}", text(a.which)}, {"{v}", text(a.value)}})
    for (size_t at; (at = t.find(name)) != t.npos;) t.replace(at, 3, value);
  return t;
}

struct Text {
  const char* name;
  const char* text;
};

// In the order of Do.
constexpr std::array<Text, kActs> kTexts{{
    {"call", "step(x, y, out, factor);  // other values in x and y at each call"},
    {"call_throws", "EXPECT_THROW(step(x, y, out, factor, /*stop=*/1 + {w} % 3));  // nothing has happened"},
    {"call_limited", "set_memory_limit(live + 1 + {w}); step(x, y, out, factor); set_memory_limit(0);"},
    {"second", "second(x, y);  // loss = (net(x) - y)^4: backward and optimizer.step() where step has them"},
    {"prepare", "step.prepare(x, y, out, factor);  // nothing has happened"},
    {"many", "step.many(X, Y, OUT, factor);  // of [1, 2, 3, 7][{w} % 4] steps"},
    {"rows", "rows = 4 + {w} % 3;  // of x and y"},
    {"factor", "factor = {v};"},
    {"write_to", "out = [new tensor, kept tensor, base.slice(0, 1, 1 + n), extra, extra.clone()][{w} % 5];"},
    {"same", "same = !same;  // y is x"},
    {"keep", "keep = !keep;  // x and y are the same tensors at each call"},
    {"thread", "threaded = !threaded;  // calls are made by another thread"},
    {"no_grad", "no_grad = !no_grad;  // calls are made without grad mode"},
    {"argument_grad", "argument_grad = !argument_grad;  // x requires grad"},
    {"zero_grad", "optimizer.zero_grad(/*set_to_none=*/{w} % 2 == 0);"},
    {"optimizer_step", "optimizer.step();"},
    {"schedule", "scheduler.step();  // StepLR(optimizer, 2, 0.5)"},
    {"hold_state", "held = all tensors of the optimizer's state;"},
    {"clear_state", "optimizer.state().clear();"},
    {"lr", "options.lr({v});"},
    {"weight_decay", "options.weight_decay({v});"},
    {"momentum", "options.momentum({v});  // or the first beta"},
    {"freeze", "p[{w} % size].requires_grad_(!p.requires_grad());"},
    {"mode", "net.train(!net.is_training());"},
    {"module_number", "net.scale = {v};  // a member: its forward pass ends with x * scale"},
    {"module_flag", "net.negates = !net.negates;  // a member: or with -x * scale"},
    {"write_view", "p[{w} % size].detach().slice(0, 0, 1).fill_({v});"},
    {"swap", "swap values of p[{w} % size] and the first other of its size by copy_;"},
    {"set_data", "p[{w} % size].set_data(p.detach() * (1 + {v} / 4));"},
    {"save_load", "save(net), save(optimizer); p *= 1.5 for all; load(net), load(optimizer);"},
    {"drop_gradient", "p[{w} % size].mutable_grad() = Tensor();"},
    {"give_gradient", "p[{w} % size].mutable_grad() = full_like(p, {v});"},
    {"scale_gradient", "p[{w} % size].mutable_grad().mul_({v});"},
    {"hold_gradient", "held = p[{w} % size].grad();"},
    {"hold_parameter", "held = p[{w} % size].detach().clone();"},
    {"hold_result", "held = what the last call returned;"},
    {"replace_extra", "old = {w} % 2 == 0 ? extra : Tensor(); extra = extra * (1 + {v});"},
    {"scale_extra", "extra.mul_({v});"},
    {"host_number", "host_number.fill_({v});"},
    {"captured_number", "captured_number = {v};"},
    {"table_start", "start = {w} % (3 * n);"},
    {"table_write", "table.mul_({v});"},
    {"default_type", "set_default_dtype({w} % 2 ? kDouble : kFloat);"},
    {"plain",
     "[gain = {v}, shift = {v}, repeats = {w} % 4, flips = {v} > 0.75, most = {w} > 4 ? {v} : none][{w} % "
     "5];"},
}};

constexpr std::array kPieces{
    "Linear", "linear(x, first.weight)", "BatchNorm1d", "LayerNorm", "Dropout(0.3)", "relu", "tanh", "gelu"};
constexpr std::array kRules{"torch SGD",     "torch Adam", "torch AdamW", "torch RMSprop",
                            "torch Adagrad", "optim SGD",  "optim Adam",  "optim AdamW"};
constexpr std::array kPlaces{"",
                             "a member of this",
                             "*shared_ptr",
                             "*unique_ptr, behind a string",
                             "an element of a vector",
                             "a global",
                             "a static of a function",
                             "*unique_ptr behind a shared_ptr",
                             "thread_local",
                             "an element of a vector of net"};
constexpr std::array kNamed{", {net, optimizer}", ", {net}", ", {optimizer}", ""};
constexpr std::array kForms{"", " (host tensors)", " (host tensors, x a slice)",
                            " (host tensors, x of float)"};

std::string step_of(const Step& s) {
  std::string t;
  const auto line = [&](bool there, const char* text) {
    if (there) t += std::string("  ") + text + "\n";
  };
  line(s.busy, "++calls;  // a captured int64_t");
  line(s.zero == Zero::begin, "optimizer.zero_grad();");
  line(s.zero == Zero::begin_zeros, "optimizer.zero_grad(/*set_to_none=*/false);");
  line(s.draws, "rand({3}, device);");
  line(s.halves, "for each half of x and y {");
  line(s.form != Form::device, "x = x.to(device, kDouble), y = y.to(device, kDouble);");
  line(s.noise, "x = x + 0.1 * rand_like(x);");
  line(s.checkpointed, "o = checkpoint(net)(x) * factor;");
  line(!s.checkpointed, "o = net(x) * factor;");
  line(s.host_number, "o = o * host_number;  // 0-d tensor of the host");
  line(s.captured_number, "o = o * captured_number;  // a double");
  line(s.table, "o = o + table.slice(0, start, start + n).to(device);  // of the host");
  if (s.place != Place::nowhere) t += text("  // plain is ", kPlaces[static_cast<size_t>(s.place)], ":\n");
  line(s.place != Place::nowhere,
       "o = o * gain + shift; if (flips) o = -o; if (most) o = o.clamp_max(*most);");
  line(s.place != Place::nowhere, "for (int i = 0; i < repeats; ++i) o = o * 0.9;");
  line(true, "loss = mse_loss(o, y);");
  line(s.rate, "loss = loss * (1 + options.lr());");
  line(s.default_type, "loss = loss * full({}, 1.5, device);");
  line(true, "if (stop == 1) throw;");
  line(s.goal != Goal::inference, "loss.backward();");
  line(s.halves, "}");
  line(s.clip, "clip_grad_norm_(net.parameters(), 0.5);");
  line(true, "if (stop == 2) throw;");
  line(s.goal == Goal::train, "optimizer.step();");
  line(s.goal == Goal::train && s.twice, "optimizer.step();");
  line(s.extra == Extra::average, "extra.mul_(0.9).add_(first.weight.mean(0), 0.1);");
  line(s.extra == Extra::counter, "extra.add_(1);");
  line(s.write == Write::add, "out.add_(o.mean(0));");
  line(s.write == Write::copy, "out.copy_(o.mean(0));");
  line(s.write == Write::slice, "out.slice(0, 0, 1).add_(1);");
  line(true, "if (stop == 3) throw;");
  std::string results;
  for (const auto& [bit, name] : {std::pair{kLoss, "loss"},
                                  {kGradient, "first.weight.grad()"},
                                  {kView, "extra.slice(0, 0, 2)"},
                                  {kOutput, "o"},
                                  {kArgument, "out"}})
    if (s.returns & bit) results += (results.empty() ? "" : ", ") + std::string(name);
  if (s.default_type) results += (results.empty() ? "" : ", ") + std::string("ones({2}, device)");
  t += "  results = {" + results + "};\n";
  line(s.zero == Zero::end, "optimizer.zero_grad();");
  line(s.schedule, "scheduler.step();  // StepLR(optimizer, 2, 0.5)");
  return t + "  return results;\n";
}

}  // namespace

const char* name_of(Do act) { return kTexts[static_cast<size_t>(act)].name; }

std::string as_program(const Case& c) {
  std::string t = text("n = ", c.model.features, "; net = Sequential(");
  for (size_t i = 0; i < c.model.pieces.size(); ++i)
    t += text(i ? ", " : "", kPieces[static_cast<size_t>(c.model.pieces[i])]);
  t += ");";
  if (c.model.frozen >= 0) t += text(" p[", c.model.frozen, " % size].requires_grad_(false);");
  const Optimizer& o = c.optimizer;
  t += text("\noptimizer = ", kRules[static_cast<size_t>(o.rule)], "(lr ", o.lr, ", momentum or beta ",
            o.momentum, ", weight_decay ", o.weight_decay,
            o.flag ? ", nesterov/amsgrad/centered/lr_decay" : "", ");\n");
  t += text("step = compile([](x, y, out, factor, stop)", kForms[static_cast<size_t>(c.step.form)], " {\n",
            step_of(c.step), "}", kNamed[static_cast<size_t>(c.step.named)], ");\n");
  if (c.step.nested != Nested::none)
    t += text("inner = step; step = compile([](…) { return inner(…); }",
              c.step.nested == Nested::both_named ? kNamed[static_cast<size_t>(c.step.named)] : "", ");\n");
  for (size_t i = 0; i < c.acts.size(); ++i)
    t += text("/* ", i, " */ ", text_of(c.acts[i], kTexts[static_cast<size_t>(c.acts[i].what)].text), "\n");
  return t + (c.looks ? "" : "// Nothing is read before the end.\n");
}

}  // namespace tpubridge::fuzz
