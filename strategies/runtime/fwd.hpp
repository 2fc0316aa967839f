#pragma once

namespace troupe {

struct remote_state;
class coordinator_client;
class cluster_coordinator;
class parameter_server_strategy;
class runtime;
class variable;
class worker_context;
struct sparse_gradient;
struct variable_options;
template <class T>
class per_worker;
template <class T>
class remote_value;

} // namespace troupe
