// Webhooks and mails by libcurl: each a transfer of its own, without a connection that is kept.
#pragma once

#include <atomic>

#include "platform/notifier/notifier.h"

namespace lockstep::notifier {

Answer post_webhook(const NotifierSetup& setup, const Delivery& delivery,
                    const std::atomic<bool>& is_stopped);
Answer send_mail(const NotifierSetup& setup, const Delivery& delivery,
                 const std::atomic<bool>& is_stopped);

}  // namespace lockstep::notifier
