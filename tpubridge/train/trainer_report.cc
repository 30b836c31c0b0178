// What happens every so many steps: losses are read and written down, the model is evaluated.
#include <torch/nn/module.h>

#include <cmath>
#include <cstdio>

#include "tpubridge/exec/ledger.h"
#include "tpubridge/train/eval_scope.h"
#include "tpubridge/train/trainer_impl.h"

namespace tpubridge {

namespace train {

// Numbers of several steps are read at once.
double LossLog::number(const at::Tensor& of, int64_t row) {
  if (row < 0) return of.item<double>();
  if (!rows_.is_same(of)) rows_ = of, host_ = of.cpu();
  return host_[row].item<double>();
}

void LossLog::read(size_t keep) {
  while (pending_.size() > keep) {
    Step s = std::move(pending_.front());
    pending_.pop_front();
    const double loss = number(s.result.loss, s.result.row);
    if (!std::isfinite(loss)) {
      pending_.clear();
      throw NonFinite{std::move(s), loss};
    }
    loss_ = loss;
    step_ = s.number;
    if (pending_.size() <= keep && s.result.norm.defined())
      norm_ =
          s.result.row < 0 ? s.result.norm.item<double>() : s.result.norm.cpu()[s.result.row].item<double>();
    rate_ = s.rate;
  }
}

}  // namespace train

namespace {

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(seconds));
  char text[32];
  if (s >= 3600)
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else
    std::snprintf(text, sizeof text, "%ld:%02ld", s / 60, s % 60);
  return text;
}

}  // namespace

std::string to_string(const Progress& p) {
  char text[160];
  std::string out = "step " + std::to_string(p.step);
  if (p.steps > 0) out += "/" + std::to_string(p.steps);
  std::snprintf(text, sizeof text, "  loss %.4f  rate %.3g  %.0f examples/s", p.loss, p.rate,
                p.examples_per_second);
  out += text;
  if (p.evaluation) {
    std::snprintf(text, sizeof text, "  evaluation %.4f", *p.evaluation);
    out += text;
  }
  out += "  " + clock_text(p.seconds);
  if (p.seconds_left) out += ", " + clock_text(*p.seconds_left) + " left";
  return out;
}

void Trainer::Impl::report(size_t keep) {
  losses.read(keep);
  if (losses.step() <= reported_step) return;
  const double since = std::max(seconds_since(reported), 1e-9);
  Progress p{losses.step(), options.steps, losses.next_epoch().value_or(epoch), losses.loss(), losses.rate()};
  p.examples_per_second = static_cast<double>(examples - reported_examples) / since;
  p.seconds = seconds_since(began);
  p.evaluation = last_evaluation;
  if (options.steps > 0 && step > begun_step)
    p.seconds_left =
        p.seconds / static_cast<double>(step - begun_step) * static_cast<double>(options.steps - step);
  reported = std::chrono::steady_clock::now();
  reported_examples = examples;
  reported_step = losses.step();
  nlohmann::ordered_json line{{"epoch", p.epoch},
                              {"loss", p.loss},
                              {"rate", p.rate},
                              {"examples_per_second", p.examples_per_second},
                              {"seconds", p.seconds}};
  if (options.clip_norm > 0) line["gradient_norm"] = losses.norm();
  if (!device.is_cpu()) line["device_bytes"] = device_memory(device.index()).live;
  metrics.write(p.step, line);
  if (options.on_progress) options.on_progress(p);
}

double Trainer::Impl::evaluate(DataSource& data) {
  const EvalScope scope(*module);
  const nlohmann::json from = data.position();
  for (int64_t in_parts = parts;; in_parts *= 2) {
    try {
      const double mean = mean_loss(data, in_parts);
      data.seek(from);
      return mean;
    } catch (const TPUOutOfMemoryError&) {
      data.seek(from);
      if (in_parts > (1 << 16)) throw;
    } catch (...) {
      data.seek(from);
      throw;
    }
  }
}

double Trainer::Impl::mean_loss(DataSource& data, int64_t in_parts) {
  struct Part {
    at::Tensor loss;
    double weight;
  };
  std::vector<Part> read_later;
  double rows = 0;
  while (const auto batch = data.next()) {
    const auto n =
        static_cast<double>(batch->empty() || batch->front().dim() == 0 ? 1 : batch->front().size(0));
    rows += n;
    for (const auto& part : split(*batch, std::min(in_parts, static_cast<int64_t>(n)), device))
      read_later.push_back({runner.evaluate(part.batch), n * part.weight});
  }
  if (read_later.empty()) throw ArgumentError("the data for the evaluation has no batch");
  double sum = 0;
  for (const auto& p : read_later) sum += p.weight * p.loss.item<double>();
  return sum / rows;
}

bool Trainer::Impl::improve(double evaluation) {
  last_evaluation = evaluation;
  metrics.write(step, {{"evaluation", evaluation}});
  if (!best || evaluation < *best) {
    best = evaluation;
    bad_evaluations = 0;
  } else {
    ++bad_evaluations;
  }
  return options.patience == 0 || bad_evaluations < options.patience;
}

}  // namespace tpubridge
