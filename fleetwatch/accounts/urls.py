"""Log in, log out, change the password, second factors, follow an invitation: accounts are made by
an admin, so nothing else of allauth is here.
"""

from allauth.account import views
from allauth.socialaccount import views as social
from django.urls import include, path

from fleetwatch.accounts.log_in import invitations, passwords

urlpatterns = [
    path("login/", views.login, name="account_login"),
    path("logout/", views.logout, name="account_logout"),
    path("inactive/", views.account_inactive, name="account_inactive"),
    path("password/change/", passwords.change, name="account_change_password"),
    path("", include("allauth.socialaccount.providers.openid_connect.urls")),
    path("sso/cancelled/", social.login_cancelled, name="socialaccount_login_cancelled"),
    path("sso/error/", social.login_error, name="socialaccount_login_error"),
    path("2fa/", include("allauth.mfa.urls")),
    path("invitations/<str:secret>/", invitations.accept, name="invitation"),
    path("reauthenticate/", views.reauthenticate, name="account_reauthenticate"),
]
