#include <troupe/actors/checkpoint/checkpoint_export.hpp>

#include <troupe/actors/checkpoint/detail/checkpoint_manifest.hpp>
#include <troupe/data/npy.hpp>

namespace troupe {

namespace {

class exporter {
public:
  exporter(const checkpoint_reader& from, npz_writer to, checkpoint_export_options options)
    : from_{from}, to_{std::move(to)}, options_{options} {}

  result<checkpoint_export_report> run() {
    report_.checkpoint = from_.path();
    for (const auto& variable : from_.variables())
      if (auto done = add(variable); !done)
        return std::move(done.error());
    if (auto done = to_.close(); !done)
      return std::move(done.error());
    return report_;
  }

private:
  result<void> add(const checkpoint_variable& variable) {
    for (const auto& part : variable.parts) {
      const bool is_value = part.name == value_part;
      if (!is_value && !options_.slots)
        continue;
      auto whole = from_.read(variable.name, part.name, 0, detail::rows_of(variable.shape));
      if (!whole)
        return std::move(whole.error());
      if (auto done = put(is_value ? variable.name : variable.name + "/" + part.name, *whole);
          !done)
        return done;
    }
    if (!options_.slots || variable.optimizer == optimizer_kind::none)
      return {};
    return put(variable.name + "/steps", tensor::scalar(static_cast<std::int64_t>(variable.steps)));
  }

  result<void> put(const std::string& name, const tensor& x) {
    ++report_.arrays;
    report_.size_bytes += x.size_bytes();
    return to_.add(name, x);
  }

  const checkpoint_reader& from_;
  npz_writer to_;
  checkpoint_export_options options_;
  checkpoint_export_report report_{};
};

} // namespace

result<checkpoint_export_report> export_checkpoint(storage_port& storage,
                                                   const checkpoint_reader& from,
                                                   const std::string& file,
                                                   checkpoint_export_options options) {
  auto to = npz_writer::create(storage, file);
  if (!to)
    return std::move(to.error());
  return exporter{from, std::move(*to), options}.run();
}

result<checkpoint_export_report> export_checkpoint(storage_port& storage,
                                                   const std::string& directory,
                                                   const std::string& file,
                                                   checkpoint_export_options options) {
  const bool is_one = storage.exists(directory + "/" + std::string{detail::manifest_name});
  auto from = is_one ? checkpoint_reader::open(storage, directory)
                     : checkpoint_reader::open_latest(storage, directory);
  if (!from)
    return std::move(from.error());
  return export_checkpoint(storage, *from, file, options);
}

} // namespace troupe
