#include <troupe/device/bucket_reducer.hpp>

#include <utility>

namespace troupe {

bucket_reducer::bucket_reducer(std::shared_ptr<device> on, device_comm comm,
                               device_stream comm_stream, bucket_options options)
  : on_{std::move(on)},
    comm_{std::move(comm)},
    comm_stream_{std::move(comm_stream)},
    options_{options},
    ops_{on_, comm_stream_} {}

result<void> bucket_reducer::add(const device_tensor& gradient, const device_stream& compute) {
  if (gradient.type() != dtype::f32)
    return make_failure(errc::dtype_mismatch, to_string(on_->id())
                                                + ": bucket_reducer: a gradient is of "
                                                + to_string(gradient.type()) + ", expected f32");
  if (gradient.size() == 0)
    return {};
  if (!waiting_.empty() && waiting_bytes_ + gradient.size_bytes() > options_.bucket_bytes)
    if (auto done = flush(compute); !done)
      return done;
  waiting_.push_back(gradient);
  waiting_bytes_ += gradient.size_bytes();
  return waiting_bytes_ < options_.bucket_bytes ? result<void>{} : flush(compute);
}

result<void> bucket_reducer::flush(const device_stream& compute) {
  if (waiting_.empty())
    return {};
  auto parts = std::exchange(waiting_, {});
  waiting_bytes_ = 0;
  std::int64_t count = 0;
  for (auto& part : parts) {
    count += part.size();
    part.used_on(comm_stream_);
  }
  auto ready = on_->mark(compute);
  if (!ready)
    return ready.error();
  if (auto done = on_->depends(comm_stream_, *ready); !done)
    return done;
  const auto type = options_.bf16 ? dtype::bf16 : dtype::f32;
  auto bucket = device_tensor::make(on_, comm_stream_, type, {count});
  if (!bucket)
    return bucket.error();
  if (auto done = ops_.pack_bucket(parts, *bucket); !done)
    return done;
  auto summed = on_->comms().all_reduce(comm_, comm_stream_, bucket->data(),
                                        static_cast<std::uint64_t>(count), type);
  if (!summed)
    return summed.error();
  ++buckets_;
  return ops_.unpack_bucket(*bucket, parts, options_.scale);
}

result<stream_event> bucket_reducer::finish(const device_stream& compute) {
  if (auto done = flush(compute); !done)
    return done.error();
  auto all = on_->comms().mark(comm_, comm_stream_);
  if (!all)
    return all;
  if (auto done = on_->depends(compute, *all); !done)
    return done.error();
  return all;
}

} // namespace troupe
