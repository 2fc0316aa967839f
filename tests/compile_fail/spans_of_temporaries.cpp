// Elements of a tensor that is gone at the end of the line: there is no span of them.
#include <utility>
#include <vector>

#include <troupe/data/iterator.hpp>
#include <troupe/strategies/parameter_server/variable.hpp>

using namespace troupe;

float right(const variable& v, dataset_iterator& it, tensor x) {
  float sum = v.read().at<float>(0) + v.read().item<float>();
  const tensor value = v.read();
  for (float each : value.as<float>())
    sum += each;
  const auto batch = it.next();
  for (float each : batch[0].as<float>())
    sum += each;
  for (const auto& part : it.next()) // the element itself lives as long as the loop
    sum += part.at<float>(0);
  for (const auto& part : it.next().parts())
    sum += part.at<float>(0);
  for (auto extent : v.read().shape())
    sum += static_cast<float>(extent);
  x.mutable_as<float>()[0] = 1;
  x.mutable_bytes()[0] = x.bytes()[1];
  return sum + std::as_const(x).as<float>()[0];
}

#ifdef WRONG
void wrong(const variable& v, dataset_iterator& it, tensor x) {
  for (float each : v.read().as<float>()) // wrong
    (void)each;
  const auto kept = v.read().as<float>();                   // wrong
  auto bytes = v.read().bytes();                            // wrong
  auto more = x.clone().mutable_as<float>();                // wrong
  auto these = x.clone().mutable_bytes();                   // wrong
  auto moved = std::move(x).as<float>();                    // wrong
  auto frozen = static_cast<const tensor&&>(x).as<float>(); // wrong
  for (float each : it.next()[0].as<float>())               // wrong
    (void)each;
  for (float each : it.next().only().as<float>()) // wrong
    (void)each;
  auto images = it.next().images().as<float>(); // wrong
  auto labels = it.next().labels().bytes();     // wrong
}
#endif
