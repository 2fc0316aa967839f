// Constraints of variables: kept, and applied when somebody says so.

#include <troupe/strategies/variables/detail/variable_core.hpp>

namespace troupe::detail {

tensor variable_core::constrained(std::size_t component) const {
  constexpr const char* what = "apply_constraint";
  if (!constraint_)
    throw_failure(complaint(errc::wrong_state, what, "the variable has no constraint"));
  auto out = constraint_(copies_[component]->read().values);
  if (!out.defined())
    throw_failure(no_value(what, "the constraint's result"));
  if (out.type() != spec_->type)
    throw_failure(complaint(
      errc::dtype_mismatch, what,
      "the constraint returned " + to_string(out.type()) + ", expected " + to_string(spec_->type)));
  if (out.shape() != spec_->shape)
    throw_failure(complaint(errc::shape_mismatch, what,
                            "the constraint returned shape " + to_string(out.shape())
                              + ", expected " + to_string(spec_->shape)));
  return out;
}

void variable_core::apply_constraint() const {
  const auto by = caller("apply_constraint");
  if (by.what == variable_context::cross) {
    std::vector<tensor> all; // what throws leaves every copy as it is
    for (std::size_t i = 0; i < copies_.size(); ++i)
      all.push_back(constrained(i));
    for (std::size_t i = 0; i < copies_.size(); ++i)
      change(*copies_[i], mutation_kind::assign, all[i]);
    return;
  }
  const auto own = constrained(by.component);
  const bool for_all = by.what == variable_context::replica && of_->count() > 1
                       && (is_shared() || keeps_copies_equal());
  if (!for_all) // copies that may differ: each its own
    return change(*copies_[by.component], mutation_kind::assign, own);
  if (is_shared())
    by.ctx->barrier(); // whoever reads before it must not see it
  settle(by, mutation_kind::assign, own);
}

} // namespace troupe::detail
