#include "batch.hpp"

namespace vkfuse::bench {

using vulkan::Access;

Result<void> Batch::begin(const Bound& bound, std::size_t timestamps) {
  device_ = bound.context().device();
  VKF_TRY(pool, vulkan::TimestampPool::create(device_, static_cast<std::uint32_t>(timestamps)));
  pool_ = std::move(pool);
  VKF_TRY(commands, vulkan::CommandBuffer::create(device_));
  commands_ = std::move(commands);
  VKF_CHECK_OK(commands_->begin());
  commands_->reset_timestamps(*pool_);
  return {};
}

Result<Batch> Batch::alone(std::span<const Bound* const> programs, std::vector<Unit> units) {
  Batch batch;
  batch.units_ = std::move(units);
  VKF_CHECK_OK(batch.begin(*programs.front(), 2 * batch.units_.size()));
  std::uint32_t query = 0;
  for (const Unit& unit : batch.units_) {
    // The time starts when everything before has ended, so no two runs overlap.
    batch.commands_->barrier(Access::compute | Access::transfer, Access::compute);
    batch.commands_->write_timestamp(*batch.pool_, query++);
    VKF_CHECK_OK(programs[unit.program]->record(*batch.commands_, unit.set));
    batch.commands_->write_timestamp(*batch.pool_, query++);
  }
  VKF_CHECK_OK(batch.commands_->end());
  return batch;
}

Result<Batch> Batch::stream(const Bound& bound, std::size_t program, std::size_t first, int runs) {
  Batch batch;
  batch.units_ = {{program, first}};
  batch.runs_ = runs;
  VKF_CHECK_OK(batch.begin(bound, 2));
  batch.commands_->barrier(Access::compute | Access::transfer, Access::compute);
  batch.commands_->write_timestamp(*batch.pool_, 0);
  for (int run = 0; run < runs; ++run) {
    const std::size_t set = (first + static_cast<std::size_t>(run)) % bound.sets;
    const bool reuses = static_cast<std::size_t>(run) % bound.sets == 0 || bound.keeps_values();
    if (run > 0 && reuses) batch.commands_->barrier(Access::compute, Access::compute);
    VKF_CHECK_OK(bound.record(*batch.commands_, set));
  }
  batch.commands_->write_timestamp(*batch.pool_, 1);
  VKF_CHECK_OK(batch.commands_->end());
  return batch;
}

Result<void> Batch::submit(bool counted) {
  started_ = Clock::now();
  VKF_TRY(submission, device_->submit(*commands_));
  VKF_TRY(done, submission.done());
  done_ = done;
  ended_ = Clock::now();
  submission_ = std::move(submission);
  counted_ = counted;
  return {};
}

Result<void> Batch::finish(std::vector<std::vector<double>>& samples) {
  if (!submission_) return {};
  VKF_CHECK_OK(submission_->wait());
  submission_.reset();
  if (!done_) ended_ = Clock::now();
  if (!counted_) return {};
  VKF_TRY(times, pool_->nanoseconds());
  for (std::size_t i = 0; i < units_.size(); ++i) {
    samples[units_[i].program].push_back((times[2 * i + 1] - times[2 * i]) * 1e-3 / runs_);
  }
  return {};
}

}  // namespace vkfuse::bench
