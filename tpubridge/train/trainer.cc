// The loop: fetch, step, and what happens every so many steps.
#include "tpubridge/train/trainer.h"

#include <cmath>

#include "tpubridge/train/signals.h"
#include "tpubridge/train/trainer_impl.h"

namespace tpubridge {

using train::NonFinite;
using train::SignalScope;

Trainer::Trainer(std::shared_ptr<torch::nn::Module> module, LossFunction loss,
                 torch::optim::Optimizer& optimizer, TrainerOptions options)
    : impl_(std::make_unique<Impl>(std::move(module), std::move(loss), optimizer, std::move(options))) {}
Trainer::~Trainer() = default;

bool Trainer::resume() { return impl_->resume(); }
std::optional<Path> Trainer::restart() { return impl_->store ? impl_->store->set_aside() : std::nullopt; }
void Trainer::save() {
  impl_->save();
  impl_->saving = false;
  if (impl_->store) impl_->store->wait();
}
int64_t Trainer::step() const { return impl_->step; }
double Trainer::evaluate(DataSource& data) { return impl_->evaluate(data); }

TrainResult Trainer::train(DataSource& data, DataSource* evaluation) {
  Impl& m = *impl_;
  const SignalScope signals;
  if (m.store) m.store->claim();
  m.begin(data);
  while (true) {
    try {
      TrainResult result = m.loop(data, evaluation);
      m.finish_saving();
      return result;
    } catch (const NonFinite& bad) {
      m.ahead.reset();
      m.stop_for(bad, data);
    } catch (const TPUBackendError& e) {
      if (m.recover(e, data)) continue;
      m.ahead.reset();
      throw;
    } catch (...) {
      m.ahead.reset();
      throw;
    }
  }
}

TrainResult Trainer::Impl::loop(DataSource& data, DataSource* evaluation) {
  TrainResult result;
  int64_t last_saved = store && store->latest() ? store->latest()->step : -1;
  while (!finished()) {
    const int64_t before = step;
    if (!some_steps(evaluation != nullptr)) break;
    for (int64_t at = before + 1; at <= step; ++at)
      if (at % options.log_every == 0) report(static_cast<size_t>(step - at) + 1);
    if (before / options.log_every != step / options.log_every) {
      if (store && !store->busy()) settle();
      if (unsaved && has_room()) save();
    }
    const bool last = finished();
    if (evaluation && !last && options.evaluate_every > 0 && step % options.evaluate_every == 0 &&
        !improve(evaluate(*evaluation)))
      result.end = TrainResult::End::early_stop;
    if (SignalScope::received() != 0 && !last) {
      result.end = TrainResult::End::interrupted;
      result.signal = SignalScope::received();
    }
    const bool stop = result.end != TrainResult::End::finished;
    if (store && (stop || (options.checkpoint_every > 0 && step % options.checkpoint_every == 0))) {
      save();
      last_saved = step;
    }
    if (stop) break;
  }
  report(0);
  if (result.end == TrainResult::End::finished && evaluation) improve(evaluate(*evaluation));
  if (store && last_saved != step) save();
  ahead.reset();
  data.seek(position);
  result.step = step;
  result.epoch = epoch;
  result.loss = losses.loss();
  result.evaluation = last_evaluation;
  result.best_evaluation = best;
  result.parts = parts;
  return result;
}

bool Trainer::Impl::finished() const {
  return (options.steps > 0 && step >= options.steps) || (options.epochs > 0 && epoch >= options.epochs);
}

std::optional<Trainer::Impl::Gathered> Trainer::Impl::gather() {
  Gathered out;
  for (int empty = 0; static_cast<int64_t>(out.batches.size()) < options.accumulate;) {
    Fetched f = fetch();
    position = std::move(f.after);
    if (f.host) {
      empty = 0;
      if (out.batches.empty()) out.position = std::move(f.before);
      out.batches.push_back(std::move(f));
      continue;
    }
    ++epoch;
    if (options.epochs > 0 && epoch >= options.epochs) break;
    if (++empty == 2) throw ArgumentError("the data gave an epoch without a batch");
  }
  if (out.batches.empty()) return std::nullopt;
  out.epoch = epoch;
  return out;
}

void Trainer::Impl::take(Gathered gathered) {
  const double rate = set_rate(step);
  train::StepResult result = run(gathered.batches);
  ++step;
  for (const auto& b : gathered.batches) examples += b.examples();
  losses.add({step, gathered.epoch, std::move(gathered.position), rate, std::move(result)});
}

bool Trainer::Impl::one_step() {
  auto gathered = gather();
  if (gathered) take(std::move(*gathered));
  return gathered.has_value();
}

}  // namespace tpubridge
