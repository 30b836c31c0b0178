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
    if (!one_step()) break;
    if (step % options.log_every == 0) {
      report(1);
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

// False where the data ended before a batch came.
bool Trainer::Impl::one_step() {
  std::vector<Fetched> batches;
  nlohmann::json first;
  for (int empty = 0; static_cast<int64_t>(batches.size()) < options.accumulate;) {
    Fetched f = fetch();
    position = std::move(f.after);
    if (f.host) {
      empty = 0;
      if (batches.empty()) first = std::move(f.before);
      batches.push_back(std::move(f));
      continue;
    }
    ++epoch;
    if (options.epochs > 0 && epoch >= options.epochs) break;
    if (++empty == 2) throw ArgumentError("the data gave an epoch without a batch");
  }
  if (batches.empty()) return false;
  const double rate = set_rate(step);
  train::StepResult result = run(batches);
  ++step;
  for (const auto& b : batches) examples += b.examples();
  losses.add({step, epoch, std::move(first), rate, std::move(result)});
  return true;
}

}  // namespace tpubridge
