// OtlpCalls: POST /v1/metrics, the metrics of OpenTelemetry's exporters. docs/design/imports.md.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/http/http.h"
#include "platform/otlp/otlp.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/calls/import_calls.h"
#include "platform/server/principal.h"

namespace lockstep::server {

class OtlpCalls {
 public:
  // Both outlive this.
  OtlpCalls(const CallContext& context, ImportCalls& imports)
      : context_(context), imports_(imports) {}

  static bool is_for(const net::HttpRequest& request);
  // From the head alone: its method and form. None: it may be sent.
  static std::optional<net::HttpResponse> check_head(const net::HttpRequest& request);
  net::HttpResponse handle(const net::HttpRequest& request, const Principal& caller);
  // An answer in the form of OTLP.
  static net::HttpResponse refusal(const net::HttpRequest& request, int status,
                                   const std::string& message);

 private:
  struct Stored {
    std::int64_t rejected = 0;
    std::string why{};
  };
  Result<Stored> store(const net::HttpRequest& request, const Principal& caller);
  Result<void> store(const otlp::ResourceMetrics& resource, const Principal& caller,
                     Stored& stored);
  Result<void> store_histograms(const otlp::ResourceMetrics& resource, const model::RunId& run,
                                int rank, Stored& stored);
  // The run that the resource names, or the one of its service.
  Result<model::RunId> run_of_resource(const otlp::Attributes& attributes, const Principal& caller);
  bool is_repeated(const std::string& body);

  const CallContext& context_;
  ImportCalls& imports_;
  std::deque<std::uint64_t> recent_;  // hashes of bodies
};

}  // namespace lockstep::server
