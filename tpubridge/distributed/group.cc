#include "tpubridge/distributed/group.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/hash.h"
#include "tpubridge/distributed/detached.h"
#include "tpubridge/distributed/no_pipe_signal.h"

namespace tpubridge::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

StorePtr below(const std::string& prefix, const StorePtr& store) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
}

std::string shape_words(const ffi::Buffer& b) { return Shape(b.dtype, {b.dims.begin(), b.dims.end()}).str(); }

int64_t bytes_of(const ffi::Buffer& b) { return b.elements() * (bits(b.dtype) / 8); }

// As elements that Gloo can reduce: complex numbers are two, truth values bytes. Nothing for other types.
std::optional<c10::ScalarType> reduced_as(DType t) {
  switch (t) {
    case DType::pred:
    case DType::u8:
      return at::kByte;
    case DType::c64:
      return at::kFloat;
    case DType::c128:
      return at::kDouble;
    case DType::s8:
      return at::kChar;
    case DType::s32:
      return at::kInt;
    case DType::s64:
      return at::kLong;
    case DType::bf16:
      return at::kBFloat16;
    case DType::f16:
      return at::kHalf;
    case DType::f32:
      return at::kFloat;
    case DType::f64:
      return at::kDouble;
    default:
      return std::nullopt;
  }
}

at::Tensor view_of(const ffi::Buffer& b, c10::ScalarType as) {
  return at::from_blob(b.data, {bytes_of(b) / static_cast<int64_t>(c10::elementSize(as))}, as);
}

// A message cannot be waited for bit by bit: that it takes longer than said breaks all connections.
std::future<void> in_background(c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> keep,
                                milliseconds timeout) {
  return detached([work = std::move(work), keep = std::move(keep), timeout] { work->wait(timeout); });
}

// A rank that dies while the others connect would have them wait for the whole timeout.
template <class F>
auto while_all_live(const Place& place, const Watch& watch, F make) {
  auto made = detached(std::move(make));
  while (made.wait_for(milliseconds(50)) != std::future_status::ready)
    if (const auto why = watch.failure())
      throw TPUDistributedError(*why, {{"rank", std::to_string(place.rank)}}, "Start the job again.",
                                Code::unavailable);
  return made.get();
}

StorePtr cloned(const StorePtr& store, const Place& place, const Watch& watch) {
  return while_all_live(place, watch, [store] { return store->clone(); });
}

BackendPtr connected(const StorePtr& store, const Place& place, const Watch& watch, milliseconds timeout) {
  return while_all_live(
      place, watch, [store, place, timeout] { return make_gloo(store, place, own_address(place), timeout); });
}

// Turns of a token, which may pass the last number.
bool after(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b)) > 0;
}

c10d::ReduceOp reduction_named(const std::string& name) {
  using Op = c10d::ReduceOp;
  if (name == "mean") return Op::AVG;
  if (name == "max") return Op::MAX;
  if (name == "min") return Op::MIN;
  if (name == "product") return Op::PRODUCT;
  return Op::SUM;
}

}  // namespace

void check_reduction(DType dtype, const std::string& reduction) {
  const bool sums = reduction == "sum" || reduction == "mean";
  const auto refuse = [&](const std::string& why) {
    throw TPUDistributedError(why, {{"dtype", std::string(name(dtype))}, {"reduction", reduction}},
                              "Convert it before, and back after.", Code::invalid_argument);
  };
  if (!sums && reduction != "max" && reduction != "min" && reduction != "product")
    throw TPUDistributedError("there is no reduction '" + reduction + "'", {},
                              "sum, mean, max, min and product are there.", Code::invalid_argument);
  if (is_complex(dtype) && !sums) refuse("complex numbers have no order and no product here");
  if (reduction == "mean" && !is_float(dtype) && !is_complex(dtype))
    refuse("the mean of whole numbers is no whole number");
  if (dtype == DType::pred && reduction != "max" && reduction != "min")
    refuse("truth values have no sum: max is 'any', min is 'all'");
  if (!reduced_as(dtype)) refuse("Gloo does not reduce this element type");
}

struct Group::Request {
  std::string kind, reduction, words;
  int64_t other = 0;  // the root, or the other side
  int64_t tag = 0;
  ffi::Buffer in, out;
  uint64_t signature = 0;
  bool again = false;

  Request(const ffi::Call& call, bool ran_before)
      : kind(call.text("kind")),
        reduction(call.text("reduction")),
        other(call.integer("other")),
        tag(call.integer("tag")),
        in(call.input("x")),
        out(call.output(0)),
        again(ran_before) {
    words = kind + (reduction.empty() ? "" : " " + reduction) + " " + shape_words(in);
    if (kind == "broadcast") words += " from rank " + std::to_string(other);
    if (kind == "send") words += " to rank " + std::to_string(other);
    if (kind == "recv") words += " from rank " + std::to_string(other);
    if (again) words += " a second time";
    signature = hash64(words);
  }
};

Group::Group(std::string name, const Place& place, const StorePtr& store, std::shared_ptr<Watch> watch,
             milliseconds timeout)
    : name_(std::move(name)),
      place_(place),
      watch_(std::move(watch)),
      store_(below("group/" + name_, cloned(store, place, *watch_))),
      timeout_(timeout),
      data_(connected(below("data", store_), place, *watch_, timeout)),
      questions_(connected(below("questions", store_), place, *watch_, timeout)) {}

uint64_t Group::asked() const {
  const std::lock_guard lock(mutex_);
  return asked_;
}

std::string Group::exchange(const ffi::Call& call) {
  const std::lock_guard lock(mutex_);
  if (const auto why = watch_->failure()) return *why;
  // A program that fails after its collectives leaves the token as it was, so they come again when it, or a
  // part of it, is run once more. That is a legal thing to do where all ranks do it; one alone would be given
  // what others have for their next collective.
  const int32_t turn = call.input("token").as<const int32_t>()[0];
  const Request r(call, after(turn_, turn));
  const NoPipeSignal none;
  watch_->begin(name_, agreement_.count(), r.words);
  try {
    look_after_sends();
    if (r.kind == "send" || r.kind == "recv") {
      point_to_point(r);
    } else {
      if (!agreement_.foresees(r.signature)) ask(r);
      collective(r);
      agreement_.happened(r.signature);
    }
    const auto next = static_cast<int32_t>(static_cast<uint32_t>(turn) + 1);
    call.output(1).as<int32_t>()[0] = next;
    if (!r.again) turn_ = next;
    watch_->end(name_);
    return {};
  } catch (const std::exception& e) {
    std::string why = watch_->failure() ? *watch_->failure() : watch_->broken(name_, words_of(e));
    watch_->end(name_);
    return r.words + " on rank " + std::to_string(place_.rank) + ": " + why;
  }
}

void Group::token_is_new() {
  const std::lock_guard lock(mutex_);
  turn_ = 0;
}

void Group::collective(const Request& r) {
  // Gloo works on memory of ours: where it is given up, its threads may go on with that.
  if (r.kind == "all_reduce") {
    const auto as = reduced_as(r.in.dtype).value();
    std::vector<at::Tensor> all = {view_of(r.in, as).clone()};
    c10d::AllreduceOptions options;
    options.reduceOp = reduction_named(r.reduction);
    wait(data_->allreduce(all, options));
    view_of(r.out, as).copy_(all[0]);
  } else if (r.kind == "broadcast") {
    std::vector<at::Tensor> all = {view_of(r.in, at::kByte).clone()};
    c10d::BroadcastOptions options;
    options.rootRank = r.other;
    wait(data_->broadcast(all, options));
    view_of(r.out, at::kByte).copy_(all[0]);
  } else if (r.kind == "all_gather") {
    at::Tensor in = view_of(r.in, at::kByte).clone(), out = at::empty({bytes_of(r.out)}, at::kByte);
    wait(data_->_allgather_base(out, in));
    view_of(r.out, at::kByte).copy_(out);
  } else if (r.kind == "reduce_scatter") {
    const auto as = reduced_as(r.in.dtype).value();
    at::Tensor in = view_of(r.in, as).clone(), out = at::empty_like(view_of(r.out, as));
    c10d::ReduceScatterOptions options;
    options.reduceOp = reduction_named(r.reduction);
    wait(data_->_reduce_scatter_base(out, in, options));
    view_of(r.out, as).copy_(out);
  } else if (r.kind == "all_to_all") {
    at::Tensor in = view_of(r.in, at::kByte).clone(), out = at::empty_like(in);
    std::vector<int64_t> equal;
    wait(data_->alltoall_base(out, in, equal, equal));
    view_of(r.out, at::kByte).copy_(out);
  } else if (r.kind == "barrier") {
    std::vector<at::Tensor> all = {at::zeros({1}, at::kInt)};
    wait(data_->allreduce(all));
    r.out.as<int32_t>()[0] = 0;
  } else {
    throw std::runtime_error("there is no collective '" + r.kind + "'");
  }
}

// A message has a head, by which the other side sees whether it is the one that it waits for. Messages are
// sent without waiting: who sends and then receives does not wait for one who does the same.
void Group::point_to_point(const Request& r) {
  const int other = static_cast<int>(r.other), tag = static_cast<int>(2 * r.tag);
  const auto head_of = [&](bool again) {
    return hash64(shape_words(r.in) + (again ? " a second time" : ""));
  };
  const uint64_t shape = head_of(r.again), other_turn = head_of(!r.again);
  if (r.kind == "send") {
    std::vector<at::Tensor> head = {at::empty({1}, at::kLong)}, body = {view_of(r.in, at::kByte).clone()};
    std::memcpy(head[0].data_ptr(), &shape, sizeof shape);
    sends_.push_back(in_background(data_->send(head, other, tag), head, timeout_));
    sends_.push_back(in_background(data_->send(body, other, tag + 1), body, timeout_));
    r.out.as<int32_t>()[0] = 0;
    return;
  }
  std::vector<at::Tensor> head = {at::zeros({1}, at::kLong)}, body = {at::empty({bytes_of(r.in)}, at::kByte)};
  auto of_head = in_background(data_->recv(head, other, tag), head, timeout_);
  wait(of_head);
  if (std::memcmp(head[0].data_ptr(), &shape, sizeof shape) != 0) {
    const bool same_shape = std::memcmp(head[0].data_ptr(), &other_turn, sizeof other_turn) == 0;
    const std::string from = "rank " + std::to_string(r.other), me = "rank " + std::to_string(place_.rank);
    watch_->fail(same_shape ? "a message from " + from + " to " + me +
                                  " comes a second time on one side alone: a program failed there after it"
                            : from + " sent another shape or element type than the " + shape_words(r.in) +
                                  " that " + me + " waits for");
    throw std::runtime_error("not what was expected");
  }
  auto of_body = in_background(data_->recv(body, other, tag + 1), body, timeout_);
  wait(of_body);
  view_of(r.out, at::kByte).copy_(body[0]);
}

void Group::look_after_sends() {
  while (!sends_.empty() && sends_.front().wait_for(milliseconds(0)) == std::future_status::ready) {
    auto done = std::move(sends_.front());
    sends_.pop_front();
    done.get();
  }
}

void Group::flush() {
  const std::lock_guard lock(mutex_);
  for (auto& done : sends_) wait(done);
  sends_.clear();
}

// All ranks are about to do something that nobody foresaw: is it the same?
void Group::ask(const Request& r) {
  if (place_.world == 1) return;
  ++asked_;
  at::Tensor mine = at::empty({1}, at::kLong), all = at::empty({place_.world}, at::kLong);
  std::memcpy(mine.data_ptr(), &r.signature, sizeof r.signature);
  wait(questions_->_allgather_base(all, mine));
  const int64_t own = mine.item<int64_t>();
  const auto* theirs = all.data_ptr<int64_t>();
  if (std::all_of(theirs, theirs + place_.world, [&](int64_t s) { return s == own; })) return;
  const std::string key = "said/" + std::to_string(agreement_.count()) + "/";
  store_->set(key + std::to_string(place_.rank), to_bytes(r.words));
  std::string words = "the ranks do not do the same: collective " + std::to_string(agreement_.count()) +
                      " is " + r.words + " on rank " + std::to_string(place_.rank);
  for (int64_t i = 0, told = 0; i < place_.world && told < 4; ++i) {
    if (theirs[i] == own) continue;
    words += ", " + to_text(store_->get(key + std::to_string(i))) + " on rank " + std::to_string(i);
    ++told;
  }
  watch_->fail(words);
  throw std::runtime_error("not the same on all ranks");
}

void Group::wait(std::future<void>& done) {
  while (done.wait_for(milliseconds(200)) != std::future_status::ready) give_up_if_over(steady_clock::now());
  done.get();
}

void Group::wait(const WorkPtr& work) {
  const auto begin = steady_clock::now();
  for (;;) {
    try {
      work->wait(milliseconds(200));
      return;
    } catch (const std::exception&) {
      if (work->isCompleted()) {  // then it is the work that failed, or it ended just now
        work->wait();
        return;
      }
    }
    give_up_if_over(begin);
  }
}

void Group::give_up_if_over(steady_clock::time_point begin) {
  const auto now = steady_clock::now();
  const std::string me = "rank " + std::to_string(place_.rank);
  if (now > until_.load())
    watch_->fail(me + " ends, and others have not come to a collective that it had called");
  if (now - begin > timeout_)
    watch_->fail(me + " has waited for the others for " +
                 std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout_).count()) + " s");
  if (watch_->failure()) throw std::runtime_error("given up");
}

}  // namespace tpubridge::distributed
