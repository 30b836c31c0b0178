// A loss that is no number: which step, which batch, which op.
#include <cmath>

#include "tpubridge/base/log.h"
#include "tpubridge/train/nan_finder.h"
#include "tpubridge/train/trainer_impl.h"

namespace tpubridge {

// Goes again from the checkpoint to the bad step, which gives the same bits, and takes that one op by op; the
// one before it too, for a gradient may have spoilt the parameters while the loss was still a number.
std::string Trainer::Impl::find_op(const train::NonFinite& bad, DataSource& data,
                                   const LoadedCheckpoint& from) {
  load(from);
  begin(data);
  while (step < bad.step.number - 2 && one_step()) losses.clear();
  const train::NanFinder finder;
  for (; step < bad.step.number && finder.found().empty(); ++step) {
    std::vector<Fetched> batches;
    while (static_cast<int64_t>(batches.size()) < options.accumulate) {
      Fetched f = fetch();
      if (f.host) batches.push_back(std::move(f));
    }
    set_rate(step);
    (void)runner.run_plain(micro_batches(batches));
  }
  return finder.found();
}

void Trainer::Impl::stop_for(const train::NonFinite& bad, DataSource& data) {
  std::optional<LoadedCheckpoint> from = std::move(start);
  start.reset();
  if (store) {
    settle();
    if (auto found = store->newest_good();
        found && found->step < bad.step.number && (!from || found->step >= from->step))
      from = std::move(found);
  }
  std::string op;
  if (from && bad.step.number - from->step <= options.search_steps) {
    op = find_op(bad, data, *from);
    ahead.reset();
  }
  if (from) load(*from);
  runner.reset();
  const std::string value = std::isnan(bad.loss) ? "nan" : bad.loss > 0 ? "inf" : "-inf";
  Details details{{"step", std::to_string(bad.step.number)},
                  {"epoch", std::to_string(bad.step.epoch)},
                  {"batch", bad.step.position.dump()},
                  {"loss", value},
                  {"op", op.empty() ? "not found" : op}};
  if (from)
    details.emplace_back("checkpoint",
                         from->path.empty() ? "the beginning of this run" : from->path.string());
  metrics.write(bad.step.number, {{"event", "loss is " + value}, {"op", op}});
  throw NonFiniteLossError("the loss became " + value + " at step " + std::to_string(bad.step.number) +
                               (op.empty() ? "" : "; the first op that made such a value is " + op),
                           std::move(details),
                           from ? "The model is as it was at step " + std::to_string(from->step) +
                                      ". Use a smaller learning rate, clip gradients, or look at that batch."
                                : "Use a smaller learning rate, clip gradients, or look at that batch.");
}

}  // namespace tpubridge
