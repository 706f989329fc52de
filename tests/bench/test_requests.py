from bench import requests

SERVER = """\
# HELP apiserver_request_total Counter of apiserver requests
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="jobs",scope="resource",subresource="",verb="POST"} 3
apiserver_request_total{code="409",resource="jobs",scope="resource",subresource="",verb="POST"} 1
apiserver_request_total{code="200",resource="jobs",scope="resource",subresource="status",verb="PUT"} 5
apiserver_request_total{code="200",resource="jobs",scope="cluster",subresource="",verb="LIST"} 2
apiserver_request_total{code="200",resource="jobs",scope="cluster",subresource="",verb="WATCH"} 9
apiserver_request_total{code="200",resource="leases",scope="resource",subresource="",verb="PUT"} 70
apiserver_request_total{code="200",resource="nodes",scope="resource",subresource="status",verb="PATCH"} 8
apiserver_request_total{code="200",resource="",scope="",subresource="/readyz",verb="GET"} 4
apiserver_request_total{code="201",resource="tokenreviews",scope="resource",subresource="",verb="POST"} 6
# TYPE apiserver_request_duration_seconds histogram
apiserver_request_duration_seconds_count{resource="jobs",verb="POST"} 4
"""

ADAPTER = """\
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="201",method="POST"} 4.0
rest_client_requests_total{code="409",method="POST"} 1.0
rest_client_requests_total{code="200",method="GET"} 2.0
rest_client_requests_total{code="200",method="WATCH"} 4.0
rest_client_requests_created{code="200",method="GET"} 1.7e+09
# TYPE workqueue_depth gauge
workqueue_depth{name="minicluster"} 7.0
# TYPE events_sent_total counter
events_sent_total 5.0
"""


def test_what_the_api_server_answered_is_counted_without_watches_and_heartbeats():
    assert requests.of_server(SERVER) == {
        ("POST", "jobs"): 4,
        ("PUT", "jobs/status"): 5,
        ("LIST", "jobs"): 2,
        ("POST", "tokenreviews"): 6,
    }


def test_writes_are_not_reads_nor_questions_asked_by_post():
    assert requests.writes(requests.of_server(SERVER)) == 9


def test_what_the_adapter_asked_is_counted_by_method_without_watches():
    assert requests.of_client(ADAPTER) == {"POST": 5, "GET": 2}


def test_an_adapter_that_does_not_run_asked_nothing():
    assert requests.of_client("") == {}


def test_a_metric_is_summed_over_its_series_whether_or_not_it_has_labels():
    assert requests.total(ADAPTER, "workqueue_depth") == 7
    assert requests.total(ADAPTER, "events_sent_total") == 5
    assert requests.total(ADAPTER, "rest_client_requests_total") == 11
    assert requests.total(ADAPTER, "absent_total") == 0
