#include "preflight.hpp"

#include <array>
#include <cstddef>
#include <string>

namespace tool {

namespace tr = troupe;

void check_data(const tr::environment& env, const std::string& directory) {
  try {
    for (const char* name : {"/train-images-idx3-ubyte.gz", "/train-labels-idx1-ubyte.gz"})
      (void)env.storage.open(directory + name).value_or_throw(); // long to read
    (void)tr::fashion_mnist("test", directory).element_spec(tr::data_context{env});
  } catch (const tr::error& why) {
    tr::throw_failure(why.code(), "--data is '" + directory + "': " + why.details().text
                                    + " (install the Debian package dataset-fashion-mnist)");
  }
}

namespace {

/// A file is written to its end: on a full disk, or one of somebody else, making it is not enough.
tr::result<void> probe(tr::storage_port& storage, const std::string& directory) {
  if (auto made = storage.make_directories(directory); !made)
    return made;
  auto folder = storage.folder(directory);
  if (!folder)
    return folder.error();
  const std::string name = ".troupe-probe";
  if (auto gone = (*folder)->remove(name); !gone) // a name of ours: what it led to stays as it is
    return gone;
  auto file = (*folder)->create(name);
  if (!file)
    return file.error();
  constexpr std::array one{std::byte{1}};
  auto done = (*file)->write(one);
  if (done)
    done = (*file)->sync();
  if (done)
    done = (*file)->close();
  auto removed = (*folder)->remove(name);
  return done ? removed : done;
}

} // namespace

std::string no_checkpoint_text(const std::string& directory) {
  return "--resume: no checkpoint found in --checkpoint '" + directory
         + "'; omit --resume to start from scratch";
}

void check_checkpoint_directory(const tr::environment& env, const std::string& directory) {
  if (auto done = probe(env.storage, directory); !done)
    tr::throw_failure(tr::errc::bad_config,
                      "--checkpoint is '" + directory + "': " + done.error().text);
}

} // namespace tool
