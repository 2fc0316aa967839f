#include <troupe/device/bucket_reducer.hpp>

#include <utility>

namespace troupe {

std::vector<std::vector<device_tensor>> bucket_filler::add(const device_tensor& gradient) {
  std::vector<std::vector<device_tensor>> full;
  if (gradient.size() == 0)
    return full;
  if (!waiting_.empty() && bytes_ + gradient.size_bytes() > bytes_max_)
    full.push_back(rest());
  waiting_.push_back(gradient);
  bytes_ += gradient.size_bytes();
  if (bytes_ >= bytes_max_)
    full.push_back(rest());
  return full;
}

std::vector<device_tensor> bucket_filler::rest() {
  bytes_ = 0;
  return std::exchange(waiting_, {});
}

bucket_reducer::bucket_reducer(std::shared_ptr<device> on, device_comm comm,
                               device_stream comm_stream, bucket_options options)
  : on_{std::move(on)},
    comm_{std::move(comm)},
    comm_stream_{std::move(comm_stream)},
    options_{options},
    ops_{on_, comm_stream_},
    filler_{options.bucket_bytes} {}

result<void> bucket_reducer::add(const device_tensor& gradient, const device_stream& compute) {
  if (gradient.type() != dtype::f32)
    return make_failure(errc::dtype_mismatch, to_string(on_->id())
                                                + ": bucket_reducer: a gradient is of "
                                                + to_string(gradient.type()) + ", expected f32");
  for (const auto& bucket : filler_.add(gradient))
    if (auto done = reduce(bucket, compute); !done)
      return done;
  return {};
}

result<void> bucket_reducer::reduce(std::span<const device_tensor> parts,
                                    const device_stream& compute) {
  if (parts.empty())
    return {};
  std::int64_t count = 0;
  for (const auto& part : parts) {
    count += part.size();
    part.used_on(comm_stream_);
  }
  auto ready = on_->record_event(compute);
  if (!ready)
    return ready.error();
  if (auto done = on_->wait_event(comm_stream_, *ready); !done)
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
  if (auto done = reduce(filler_.rest(), compute); !done)
    return done.error();
  auto all = on_->comms().record_event(comm_, comm_stream_);
  if (!all)
    return all;
  if (auto done = on_->wait_event(compute, *all); !done)
    return done.error();
  return all;
}

} // namespace troupe
