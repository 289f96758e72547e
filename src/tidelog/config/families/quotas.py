"""Over which time the quotas of clients are measured."""

from tidelog.config.declare import integer
from tidelog.config.option import Options


class QuotaOptions(Options):
    quota_window_num = integer(11, "Windows over which the rates of clients are measured.", at_least=1)
    quota_window_size_seconds = integer(1, "Length of such a window.", at_least=1)
    controller_quota_window_num = integer(
        11, "Windows whose mutations a client of the controller may save up.", at_least=1
    )
    controller_quota_window_size_seconds = integer(1, "Length of such a window.", at_least=1)
